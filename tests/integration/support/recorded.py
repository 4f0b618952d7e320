# SPDX-License-Identifier: Apache-2.0
"""Pipelines with replies of every kind, which one node and a cluster answer byte for byte alike."""

# Deletes what it uses, so that it can be sent again and again.
SHORT = [
    ["DEL", "{r}s", "{r}l", "{r}h"], ["PING"], ["SET", "{r}s", "a\r\nb\0c"], ["GET", "{r}s"],
    ["GET", "{r}none"], ["INCR", "{r}s"], ["RPUSH", "{r}l", "x", "", "z"],
    ["LRANGE", "{r}l", "0", "-1"], ["HSET", "{r}h", "f", "1"], ["HGETALL", "{r}h"], ["NOSUCH"],
    ["GET"], ["MGET", "{r}s", "{r}none"], ["ECHO", ""]]


def _strings(tag):
    key = tag + "str"
    return [
        ["SET", key, "10"], ["GET", key], ["INCR", key], ["INCRBY", key, "-5"], ["DECR", key],
        ["INCRBYFLOAT", key, "0.5"], ["APPEND", key, "tail"], ["STRLEN", key],
        ["GETRANGE", key, "1", "3"], ["SETRANGE", key, "2", "\0\r\n\xff"], ["GET", key],
        ["SET", key, "v", "NX"], ["SET", key, "v", "XX", "GET"], ["GETDEL", key], ["GET", key],
        ["SETBIT", key, "7", "1"], ["BITCOUNT", key], ["GETBIT", key, "7"], ["TYPE", key],
        ["BITFIELD", key, "SET", "u8", "0", "255", "GET", "u4", "0"], ["TTL", key],
        ["EXPIRE", key, "100"], ["PERSIST", key], ["EXISTS", key, key], ["INCR", tag + "list"],
        ["MSET", tag + "1", "a", tag + "2", "b"], ["MGET", tag + "1", tag + "2", tag + "3"],
        ["DEL", tag + "1", tag + "2", tag + "3"], ["SETEX", key, "0", "x"], ["SET", key]]


def _collections(tag):
    return [
        ["RPUSH", tag + "list", "a", "b", "c", ""], ["LPUSH", tag + "list", "z"],
        ["LRANGE", tag + "list", "0", "-1"], ["LINDEX", tag + "list", "9"],
        ["LPOP", tag + "list", "2"], ["LPOS", tag + "list", "b"], ["LLEN", tag + "list"],
        ["GET", tag + "list"], ["HSET", tag + "hash", "f", "1", "g", "2"],
        ["HMGET", tag + "hash", "f", "none"], ["HGETALL", tag + "hash"],
        ["HINCRBYFLOAT", tag + "hash", "f", "1.25"], ["HLEN", tag + "hash"],
        ["HGETALL", tag + "none"], ["SADD", tag + "set", "3", "1", "2"], ["SMEMBERS", tag + "set"],
        ["SISMEMBER", tag + "set", "1"], ["SMISMEMBER", tag + "set", "1", "9"],
        ["SCARD", tag + "set"], ["ZADD", tag + "zset", "1", "a", "2.5", "b", "inf", "c"],
        ["ZRANGE", tag + "zset", "0", "-1", "WITHSCORES"], ["ZSCORE", tag + "zset", "b"],
        ["ZADD", tag + "zset", "INCR", "1", "a"], ["ZRANK", tag + "zset", "none"],
        ["ZPOPMIN", tag + "zset"], ["ZRANGEBYSCORE", tag + "zset", "-inf", "+inf"],
        ["XADD", tag + "stream", "1-1", "f", "v"], ["XADD", tag + "stream", "1-1", "f", "v"],
        ["XRANGE", tag + "stream", "-", "+"], ["XREAD", "STREAMS", tag + "stream", "0"],
        ["XREAD", "STREAMS", tag + "stream", "9"], ["XLEN", tag + "stream"],
        ["GEOADD", tag + "geo", "13.361389", "38.115556", "Palermo"],
        ["GEOPOS", tag + "geo", "Palermo", "none"], ["PFADD", tag + "pf", "a", "b"],
        ["PFCOUNT", tag + "pf"], ["OBJECT", "ENCODING", tag + "set"], ["DUMP", tag + "none"],
        ["SORT", tag + "set", "DESC"], ["RENAME", tag + "set", tag + "set2"], ["ZADD", "x", "nan"]]


def _scripts(tag):
    return [
        ["EVAL", "return {1,'two',{3,{}},redis.call('GET',KEYS[1])}", "1", tag + "none"],
        ["EVAL", "return redis.error_reply('MINE my own')", "1", tag + "k"],
        ["EVAL", "return redis.status_reply('FINE')", "0"], ["EVAL", "syntax error here", "0"],
        ["EVAL", "return ARGV[1]", "1", tag + "k", "\r\n$-1\r\n"], ["EVAL", "x", "-1"],
        ["EVALSHA", "0" * 40, "1", tag + "k"]]


def _connection():
    return [["PING"], ["PING", "\r\n"], ["ECHO", "*1\r\n$4\r\nPING\r\n"], ["SELECT", "0"],
            ["SELECT", "1"], ["NOSUCH", "a", "b"], ["CLIENT", "NOSUCH"],
            ["CLIENT", "SETNAME", "a b"], ["OBJECT"], ["READONLY"], ["CLUSTER", "KEYSLOT", "{r}"],
            ["MSETNX", "a", "1", "b", "2"]]


RECORDED = [["DEL"] + [tag + name for name in
                       ("str", "list", "hash", "set", "set2", "zset", "stream", "geo", "pf")]
            for tag in ("{t1}", "{t2}", "{t0}")]
for _tag in ("{t1}", "{t2}", "{t0}"):
    RECORDED += _connection() + _strings(_tag) + _collections(_tag) + _scripts(_tag)
