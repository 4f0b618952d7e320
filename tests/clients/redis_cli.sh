#!/bin/bash
# redis-cli and redis-benchmark, as a person at a terminal uses them. Arguments: HOST PORT.
# SPDX-License-Identifier: Apache-2.0
set -u
host=$1 port=$2 passed=0 failed=0

cli() { timeout 20 redis-cli -h "$host" -p "$port" "$@" 2>&1; }

# check NAME WANTED COMMAND...: the command's output has WANTED in it.
check() {
  local name=$1 wanted=$2 output
  shift 2
  output=$("$@")
  if [[ $output == *"$wanted"* ]]; then
    passed=$((passed + 1))
    echo "ok   $name"
  else
    failed=$((failed + 1))
    echo "FAIL $name: ${output:0:200}"
  fi
}

from_stdin() { printf '%b' "$1" | cli "${@:2}" | tr '\n' ','; }

mass_insert() { seq 100000 | sed 's/.*/SET c:pipe:& value\r/' | cli --pipe; }

large_value() {
  head -c 5000000 /dev/zero | tr '\0' x | cli -x SET c:large
  cli STRLEN c:large
}

error_status() {
  cli -e LPUSH c:text x > /dev/null
  echo "status $?"
}

benchmark() {
  timeout 60 redis-benchmark -h "$host" -p "$port" -n 2000 -c 10 -r 1000 -q "$@" 2>&1 | tr '\r' '\n'
}

check ping PONG cli ping
check resp3 'proto' cli -3 hello 3
check set OK cli set c:text hello
check get hello cli get c:text
check cluster-mode hello cli -c get c:text
check hash 'two' cli --raw eval "redis.call('HSET', KEYS[1], 'one', 'two') \
return redis.call('HGETALL', KEYS[1])" 1 c:hash
check many-slots OK cli mset c:1 one c:2 two c:3 three
check mget three cli mget c:1 c:2 c:3 c:none
check script 'OK,2,1,' from_stdin 'SET c:n 1\nINCR c:n\nDEL c:n\n'
check names 'OK,acceptance,' from_stdin 'CLIENT SETNAME acceptance\nCLIENT GETNAME\n'
check reconnect 'hello' from_stdin 'CLIENT KILL TYPE normal SKIPME no\nPING\nGET c:text\n'
check error WRONGTYPE cli lpush c:text x
check error-status 'status 1' error_status
check unknown 'unknown command' cli nosuch a b
check mass-insert 'errors: 0, replies: 100000' mass_insert
check large-value 5000000 large_value
check info redis_version cli info server
check command-docs summary cli command docs get
check help 'KILL' cli client help
check cluster-slots 16383 cli cluster slots
check benchmark 'requests per second' benchmark -t ping,set,get,incr,lpush,hset,mset
check benchmark-pipelined 'GET:' benchmark -t set,get -P 16
check benchmark-eval 'requests per second' benchmark \
  eval "return redis.call('GET', KEYS[1])" 1 c:text

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
