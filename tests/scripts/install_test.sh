#!/usr/bin/env bash
# An installed tree has the program, its configuration, the service's file and the documents, and
# the program runs from there: `install_test.sh BUILD_DIRECTORY`.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$1
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

fail() {
  echo "FAIL $*"
  exit 1
}

cmake --install "$build" --prefix "$prefix" >/dev/null
for path in bin/penstock etc/penstock/penstock.toml lib/systemd/system/penstock.service \
            share/penstock/seccomp.json share/doc/penstock/README.md share/doc/penstock/LICENSE \
            share/doc/penstock/CHANGELOG.md share/doc/penstock/configuration.md \
            share/doc/penstock/commands.md; do
  [ -s "$prefix/$path" ] || fail "$path is missing or empty"
  echo "ok   $path"
done
"$prefix/bin/penstock" --version | grep '^penstock [0-9]' >/dev/null || fail "--version"
"$prefix/bin/penstock" -c "$prefix/etc/penstock/penstock.toml" --check-config ||
  fail "the installed configuration is refused"
# What the service starts is what was installed, under whatever prefix.
started=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$prefix/lib/systemd/system/penstock.service")
[ "$(basename "$started")" = penstock ] || fail "the service starts $started"
echo "ok   the installed program runs"
