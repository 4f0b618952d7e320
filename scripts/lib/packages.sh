# What Penstock needs from Debian, by purpose, and installing only what is missing. To be sourced.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# Programs as "command:package": a command from another source is as good as Debian's.
# Libraries by the name of their package.
packages_for() {
  case "$1" in
    build) echo g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config liburing-dev \
                libfmt-dev libspdlog-dev libtomlplusplus-dev libcli11-dev libxxhash-dev ;;
    run) echo redis-server:redis-server redis-cli:redis-tools ;;
    test) echo python3:python3 python3-redis node:nodejs npm:npm catch2 libbenchmark-dev git:git \
               valgrind:valgrind setarch:util-linux ;;
    fuzz) echo clang++:clang libclang-rt-14-dev clang-format:clang-format ;;
  esac
}

is_installed() {
  local command=${1%%:*} package=${1##*:}
  if [ "$command" != "$package" ] || [[ $1 == *:* ]]; then
    command -v "$command" >/dev/null && return
  fi
  # A package may be there under a name with an architecture, or through one that provides it.
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ]
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs what is missing for the given purposes; does not touch apt when nothing is.
install_packages() {
  local purpose each missing=()
  for purpose in "$@"; do
    for each in $(packages_for "$purpose"); do
      is_installed "$each" || missing+=("${each##*:}")
    done
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    echo "there is no apt-get here: install these yourself" >&2
    return 1
  fi
  as_root apt-get -qq update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
    "${missing[@]}" >/dev/null
}
