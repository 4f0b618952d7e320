// ioredis: a plain client or its cluster mode, in RESP2 or RESP3.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const { Redis, Cluster } = require('ioredis');
const {
  assert, failure, eventually, names, run, host, mode, port, resp,
} = require('./checks');

const options = { connectionName: 'acceptance', protocol: resp, retryStrategy: () => 50 };

function make() {
  const client = mode === 'cluster'
    ? new Cluster([{ host, port }], { redisOptions: options, clusterRetryStrategy: () => 50 })
    : new Redis({ host, port, ...options });
  client.on('error', () => {});
  return client;
}

function ready(client) {
  return new Promise((resolve) => {
    if (client.status === 'ready') resolve();
    client.once('ready', resolve);
  });
}

async function values(client) {
  const bytes = Buffer.from([0, 255, 13, 10, 0]);
  assert.equal(await client.set('i:bytes', bytes), 'OK');
  assert.ok(bytes.equals(await client.getBuffer('i:bytes')));
  assert.equal(await client.get('i:none'), null);
  await client.set('i:ttl', '1', 'EX', 100);
  assert.ok(await client.ttl('i:ttl') > 90);
}

async function collections(client) {
  await client.del('i:hash', 'i:list', 'i:zset', 'i:set');
  await client.hset('i:hash', { one: '1', two: '2' });
  assert.deepEqual({ ...await client.hgetall('i:hash') }, { one: '1', two: '2' });
  await client.rpush('i:list', 'a', 'b');
  assert.deepEqual(await client.lrange('i:list', 0, -1), ['a', 'b']);
  await client.zadd('i:zset', 1.5, 'm');
  assert.equal(Number(await client.zscore('i:zset', 'm')), 1.5);
  await client.sadd('i:set', 'x', 'y');
  assert.deepEqual([...await client.smembers('i:set')].sort(), ['x', 'y']);
}

async function manySlots(client) {
  const keys = names('i:many', 50);
  const pairs = Object.fromEntries(keys.map((key, index) => [key, `value ${index}`]));
  assert.equal(await client.mset(pairs), 'OK');
  assert.deepEqual(await client.mget(...keys, 'i:none'), [...Object.values(pairs), null]);
  assert.equal(await client.unlink(...keys), 50);
}

async function pipelines(client) {
  const keys = names('i:pipe', 300);
  const pipeline = client.pipeline();
  keys.forEach((key, index) => pipeline.set(key, index).get(key).lpush(key, 'x'));
  const replies = await pipeline.exec();
  keys.forEach((_, index) => {
    assert.deepEqual(replies.slice(3 * index, 3 * index + 2), [[null, 'OK'], [null, `${index}`]]);
    assert.match(replies[3 * index + 2][0].message, /WRONGTYPE/);
  });
}

async function scripts(client) {
  assert.equal(await client.eval('return ARGV[1]', 1, 'i:key', 'a'), 'a');
  client.defineCommand('getWith', {
    numberOfKeys: 1, lua: 'return {ARGV[1], redis.call("GET", KEYS[1])}',
  });
  for (const key of names('i:script', 10)) {
    await client.set(key, 'v');
    assert.deepEqual(await client.getWith(key, 'a'), ['a', 'v']);
  }
}

async function errors(client) {
  await client.set('i:string', 'x');
  assert.match(await failure(client.lpush('i:string', 'y')), /WRONGTYPE/);
  assert.match(await failure(client.evalsha('0'.repeat(40), 1, 'i:string')), /NOSCRIPT/);
  assert.equal(await client.get('i:string'), 'x');
}

async function largeValues(client) {
  const value = Buffer.alloc(8 << 20, 'x');
  await client.set('i:large', value);
  assert.ok(value.equals(await client.getBuffer('i:large')));
  await client.del('i:large');
}

async function reconnect(client) {
  const killer = new Redis({ host, port, ...options });
  assert.ok(await killer.call('CLIENT', 'KILL', 'TYPE', 'normal') >= 1);
  await eventually(async () => {
    await client.set('i:again', 'back');
    assert.equal(await client.get('i:again'), 'back');
  });
  killer.disconnect();
}

async function identity(client) {
  assert.equal(await client.ping(), 'PONG');
  assert.equal(await client.client('GETNAME'), 'acceptance');
  assert.match(await client.info(), /redis_version:\d/);
  assert.match(await client.client('LIST'), /lib-name=ioredis/);
  assert.equal(await client.select(0), 'OK');
}

run(make(), {
  connect: ready,
  ...(mode === 'plain' ? { identity } : {}),
  values,
  collections,
  manySlots,
  pipelines,
  scripts,
  errors,
  largeValues,
  reconnect,
  quit: async (client) => assert.equal(await client.quit(), 'OK'),
});
