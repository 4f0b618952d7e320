#!/usr/bin/env bash
# The quickstart from start to stop on ports of its own, with the binary that PENSTOCK names.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
export PENSTOCK_PORT=17379 CLUSTER_PORT=17100 QUICKSTART_DIR=$work/state
quickstart=$root/scripts/quickstart

cleanup() {
  "$quickstart" stop >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  echo "FAIL $*"
  cat "$work/out" 2>/dev/null || true
  exit 1
}

# Runs the quickstart; `expect STATUS TEXT ARGUMENTS...` demands both of it.
expect() {
  local wanted=$1 text=$2 status=0
  shift 2
  "$quickstart" "$@" >"$work/out" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || fail "quickstart $*: exit status $status instead of $wanted"
  grep -qF -- "$text" "$work/out" || fail "quickstart $*: no \"$text\""
  echo "ok   quickstart $*: $text"
}

expect 1 "penstock: not running" status
expect 0 "on 3 nodes" start
[ "$(redis-cli -p "$PENSTOCK_PORT" INCR counter)" = 1 ] || fail "the first INCR"
expect 0 "runs already" start
[ "$(redis-cli -p "$PENSTOCK_PORT" INCR counter)" = 2 ] || fail "the second start began anew"
expect 0 "penstock: process" status

# One that died is started again.
kill -9 "$(cat "$QUICKSTART_DIR/penstock.pid")"
expect 1 "penstock: not running" status
expect 0 "Penstock serves on port $PENSTOCK_PORT" start
[ "$(redis-cli -p "$PENSTOCK_PORT" INCR counter)" = 3 ] || fail "the cluster was started anew"

# A second one in the way of the first.
QUICKSTART_DIR=$work/other expect 1 "port $PENSTOCK_PORT is taken by another process" start
QUICKSTART_DIR=$work/other PENSTOCK_PORT=17380 \
  expect 1 "port $CLUSTER_PORT is taken by another process" start
[ "$(redis-cli -p "$PENSTOCK_PORT" INCR counter)" = 4 ] || fail "the first one was disturbed"

expect 0 "stopped 6 node(s)" stop
for port in "$PENSTOCK_PORT" $(seq "$CLUSTER_PORT" $((CLUSTER_PORT + 5))); do
  if redis-cli -p "$port" PING >/dev/null 2>&1; then fail "something still answers on $port"; fi
done
expect 0 "penstock does not run" stop
