# SPDX-License-Identifier: Apache-2.0
"""redis-py: plain or RedisCluster, with or without asyncio. Arguments: HOST PORT MODE."""
import asyncio
import contextlib
import inspect
import sys
import time

import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import RedisCluster

HOST, PORT, MODE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
IS_CLUSTER = MODE.endswith("cluster")
MAKERS = {"plain": redis.Redis, "cluster": RedisCluster, "asyncio": redis.asyncio.Redis,
          "asyncio-cluster": AsyncCluster}
SCRIPT = "return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}"


def make(**options):
    if not IS_CLUSTER:
        options.setdefault("client_name", "acceptance")
    return MAKERS[MODE](host=HOST, port=PORT, **options)


async def the(result):
    """What a call gives, whether it is awaited or not."""
    return await result if inspect.isawaitable(result) else result


async def failure(call):
    try:
        await the(call())
    except redis.RedisError as error:
        return type(error).__name__ + " " + str(error)
    raise AssertionError("it should have failed")


async def identity(client):
    assert await the(client.ping())
    assert await the(client.info("server"))
    if IS_CLUSTER:
        return
    assert await the(client.client_getname()) in (b"acceptance", "acceptance")
    assert await the(client.client_id()) > 0
    assert any(each["name"] == "acceptance" for each in await the(client.client_list()))
    assert (await the(client.config_get("maxmemory")))["maxmemory"] == "0"


async def values(client):
    assert await the(client.set("p:bytes", b"\0\xff\r\n"))
    assert await the(client.get("p:bytes")) == b"\0\xff\r\n"
    assert await the(client.get("p:none")) is None
    await the(client.set("p:ttl", 1, ex=100))
    assert await the(client.ttl("p:ttl")) > 90
    assert await the(client.set("p:ttl", 2, nx=True)) is None


async def collections(client):
    for key in ("p:hash", "p:list", "p:zset", "p:set"):
        await the(client.delete(key))
    await the(client.hset("p:hash", mapping={"one": 1, "two": 2}))
    assert await the(client.hgetall("p:hash")) == {b"one": b"1", b"two": b"2"}
    await the(client.rpush("p:list", "a", "b"))
    assert await the(client.lrange("p:list", 0, -1)) == [b"a", b"b"]
    await the(client.zadd("p:zset", {"m": 1.5, "n": 2}))
    assert await the(client.zrange("p:zset", 0, -1, withscores=True)) == [(b"m", 1.5), (b"n", 2.0)]
    await the(client.sadd("p:set", "x", "y"))
    assert await the(client.smembers("p:set")) == {b"x", b"y"}


async def many_slots(client):
    pairs = {f"p:many:{index}": f"value {index}" for index in range(50)}
    wanted = [value.encode() for value in pairs.values()]
    if IS_CLUSTER:
        await the(client.mset_nonatomic(pairs))
        assert await the(client.mget_nonatomic(list(pairs))) == wanted
    else:
        assert await the(client.mset(pairs))
        assert await the(client.mget(list(pairs))) == wanted
    assert await the(client.delete(*pairs)) == 50


async def pipelines(client):
    pipeline = client.pipeline() if IS_CLUSTER else client.pipeline(transaction=False)
    for index in range(300):
        pipeline.set(f"p:pipe:{index}", index)
        pipeline.get(f"p:pipe:{index}")
        pipeline.lpush(f"p:pipe:{index}", "x")
    replies = await the(pipeline.execute(raise_on_error=False))
    for index in range(300):
        assert replies[3 * index:3 * index + 2] == [True, b"%d" % index], replies[3 * index]
        assert "WRONGTYPE" in str(replies[3 * index + 2])


async def scripts(client):
    for index in range(10):
        key = f"p:script:{index}"
        await the(client.set(key, "v"))
        assert await the(client.eval(SCRIPT, 1, key, "a")) == [key.encode(), b"a", b"v"]


async def errors(client):
    await the(client.set("p:string", "x"))
    assert "WRONGTYPE" in await failure(lambda: client.lpush("p:string", "y"))
    assert "NoScript" in await failure(lambda: client.evalsha("0" * 40, 1, "p:string"))
    assert await the(client.get("p:string")) == b"x"


async def large_values(client):
    value = bytes(range(256)) * (8 << 12)
    await the(client.set("p:large", value))
    assert await the(client.get("p:large")) == value
    await the(client.delete("p:large"))


async def reconnect(client):
    killer = redis.Redis(host=HOST, port=PORT)
    assert killer.client_kill_filter(_type="normal") >= 1
    deadline = time.monotonic() + 10
    while True:
        try:
            await the(client.set("p:again", "back"))
            break
        except redis.RedisError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
    assert await the(client.get("p:again")) == b"back"
    killer.close()


async def main():
    client, failed = make(), []
    checks = [identity, values, collections, many_slots, pipelines, scripts, errors, large_values,
              reconnect]
    if MODE == "asyncio-cluster":
        await client.initialize()
    for check in checks:
        try:
            await asyncio.wait_for(check(client), 30)
            print("ok  ", check.__name__)
        except Exception as error:
            failed.append(check.__name__)
            print(f"FAIL {check.__name__}: {type(error).__name__} {error}")
    with contextlib.suppress(redis.RedisError):
        await the(client.close())
    print(f"{len(checks) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


sys.exit(asyncio.run(main()))
