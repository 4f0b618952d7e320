# Processes that a script starts in one run and stops in another: known by a file with their id and
# by what they are, so that a number used again by somebody else is never taken for ours.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# The id in a file, if that process lives and its command line or directory holds `mark`.
live_pid() {
  local file=$1 mark=$2 pid
  pid=$(cat "$file" 2>/dev/null) || return 1
  [ -n "$pid" ] && [ -d "/proc/$pid" ] || return 1
  if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -F -- "$mark" >/dev/null ||
     [ "$(readlink "/proc/$pid/cwd")" = "$mark" ]; then
    echo "$pid"
    return 0
  fi
  return 1
}

# Whether anybody listens there.
is_taken() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Runs a command every tenth of a second until it succeeds: `wait_for SECONDS COMMAND...`.
wait_for() {
  local left=$(($1 * 10))
  shift
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || return 1
    sleep 0.1
  done
}

is_gone() {
  [ ! -d "/proc/$1" ] || [ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1)" = Z ]
}

# Ends a process that was asked to in vain.
end_process() {
  local pid=$1 patience=$2
  kill "$pid" 2>/dev/null || return 0
  wait_for "$patience" is_gone "$pid" || kill -9 "$pid" 2>/dev/null || true
  wait_for 5 is_gone "$pid"
}
