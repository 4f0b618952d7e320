# SPDX-License-Identifier: Apache-2.0
"""Lua for EVAL and FCALL: (number of keys, script). None names a key but through KEYS."""
import hashlib

from .keys import TAGS

LIBRARY = """#!lua name=penstock_test
redis.register_function('echo_all', function(keys, args) return {keys, args} end)
redis.register_function('put', function(keys, args)
  return redis.call('set', keys[1], args[1]) end)
redis.register_function('fails', function() return redis.error_reply('MY failure') end)
redis.register_function{function_name='fetch', flags={'no-writes'},
  callback=function(keys) return redis.call('get', keys[1]) end}
"""

FUNCTIONS = (("echo_all", 0), ("echo_all", 2), ("put", 1), ("fails", 0), ("fails", 1),
             ("fetch", 1), ("fetch", 0), ("nosuch", 1), ("ECHO_ALL", 1), ("", 0))

SCRIPTS = (
    (0, "return 7"),
    (0, "return {1,2,{3,'a',{}}}"),
    (0, "return {1,nil,3}"),
    (0, "return 3.99"),
    (0, "return true"),
    (0, "return false"),
    (0, "return nil"),
    (0, "return ARGV"),
    (0, "return #ARGV"),
    (0, "return redis.status_reply('FINE')"),
    (0, "return redis.error_reply('MY error')"),
    (0, "return redis.error_reply('two\\r\\nlines')"),
    (0, "return redis.sha1hex(ARGV[1] or '')"),
    (0, "redis.setresp(3) return {map={a=1}}"),
    (0, "redis.setresp(3) return {set={a=true}}"),
    (0, "redis.setresp(3) return {double=3.5}"),
    (0, "redis.setresp(3) return {big_number='12345678901234567890'}"),
    (0, "redis.setresp(3) return {verbatim_string={format='txt',string='a\\nb'}}"),
    (0, "redis.setresp(3) return {true,false}"),
    (0, "error('boom')"),
    (0, "error({err='A table'})"),
    (0, "return nosuch"),
    (0, "return {"),
    (0, ""),
    (0, "#!lua flags=no-writes\nreturn 1"),
    (0, "#!lua name=x\nreturn 1"),
    (0, "#!nosuch\nreturn 1"),
    (0, "#!lua flags=nosuch\nreturn 1"),
    (0, "return cjson.encode({1,2})"),
    (0, "return struct.pack('>I',1)"),
    (0, "return redis.call('nosuch')"),
    (0, "return redis.call('incr')"),
    (0, "return redis.pcall('incr')"),
    (0, "return redis.call()"),
    (0, "return redis.call('get', KEYS[1])"),
    # Errors of a script's own making, which look as if the command had not run.
    (1, "return redis.error_reply('TRYAGAIN not really')"),
    (1, "return redis.error_reply('CLUSTERDOWN so says a script')"),
    (1, "return redis.error_reply('LOADING never')"),
    (0, "return redis.error_reply('MOVED 1 10.0.0.1:1')"),
    (1, "return redis.call('get',KEYS[1])"),
    (1, "return redis.call('set',KEYS[1],ARGV[1])"),
    (1, "return redis.call('incr',KEYS[1])"),
    (1, "return {KEYS[1],ARGV[1]}"),
    (1, "return redis.call('type',KEYS[1])"),
    (1, "return redis.call('hgetall',KEYS[1])"),
    (1, "redis.setresp(3) return redis.call('hgetall',KEYS[1])"),
    (1, "return redis.call('lrange',KEYS[1],0,-1)"),
    (1, "return redis.pcall('lpush',KEYS[1],'a')"),
    (1, "return redis.call('zrange',KEYS[1],0,-1,'withscores')"),
    (1, "redis.setresp(3) return redis.call('zrange',KEYS[1],0,-1,'withscores')"),
    (1, "#!lua flags=no-writes\nreturn redis.call('set',KEYS[1],1)"),
    (1, "#!lua\nreturn redis.call('strlen',KEYS[1])"),
    (2, "redis.call('set',KEYS[1],'x') return redis.call('del',KEYS[2])"),
    (2, "return {KEYS[1],KEYS[2],ARGV[1],ARGV[2]}"),
    (2, "return redis.call('exists',KEYS[1],KEYS[2])"),
)


def sha_of(script):
    return hashlib.sha1(script.encode()).hexdigest()


# One script for each tag, run nowhere but with keys of that tag: a script is cached by the node
# that ran it, and a tag's keys have one node. EVALSHA calls no others.
SCRIPT_OF_TAG = {tag: f"return {{'{tag}',KEYS[1],ARGV[1]}}" for tag in TAGS}
TAG_OF_SHA = {sha_of(script): tag for tag, script in SCRIPT_OF_TAG.items()}
NO_SHA = "0123456789abcdef0123456789abcdef01234567"
