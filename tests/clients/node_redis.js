// node-redis: a plain client or its cluster mode, in RESP2 or RESP3.
// SPDX-License-Identifier: Apache-2.0
'use strict';

const redis = require('redis');
const {
  assert, failure, eventually, names, run, host, mode, port, resp,
} = require('./checks');

const socket = { host, port, reconnectStrategy: 50 };
const options = { RESP: resp, name: 'acceptance', socket };

function make() {
  const client = mode === 'cluster'
    ? redis.createCluster({ rootNodes: [{ socket }], defaults: { RESP: resp, name: 'acceptance' } })
    : redis.createClient(options);
  client.on('error', () => {});
  return client;
}

async function values(client) {
  assert.equal(await client.set('n:text', 'h\u00e9llo\r\n'), 'OK');
  assert.equal(await client.get('n:text'), 'h\u00e9llo\r\n');
  assert.equal(await client.get('n:none'), null);
  await client.set('n:ttl', '1', { EX: 100 });
  assert.ok(await client.ttl('n:ttl') > 90);
  assert.equal(await client.set('n:ttl', '2', { NX: true }), null);
}

async function collections(client) {
  await client.del(['n:hash', 'n:list', 'n:zset', 'n:set']);
  await client.hSet('n:hash', { one: '1', two: '2' });
  assert.deepEqual({ ...await client.hGetAll('n:hash') }, { one: '1', two: '2' });
  assert.deepEqual({ ...await client.hGetAll('n:none') }, {});
  await client.rPush('n:list', ['a', 'b']);
  assert.deepEqual(await client.lRange('n:list', 0, -1), ['a', 'b']);
  await client.zAdd('n:zset', [{ score: 1.5, value: 'm' }, { score: Infinity, value: 'n' }]);
  assert.deepEqual(await client.zRangeWithScores('n:zset', 0, -1),
    [{ value: 'm', score: 1.5 }, { value: 'n', score: Infinity }]);
  await client.sAdd('n:set', ['x', 'y']);
  assert.deepEqual([...await client.sMembers('n:set')].sort(), ['x', 'y']);
}

async function manySlots(client) {
  const keys = names('n:many', 50);
  const pairs = Object.fromEntries(keys.map((key, index) => [key, `value ${index}`]));
  assert.equal(await client.mSet(pairs), 'OK');
  assert.deepEqual(await client.mGet([...keys, 'n:none']), [...Object.values(pairs), null]);
  assert.equal(await client.exists(keys), 50);
  assert.equal(await client.del(keys), 50);
}

async function pipelines(client) {
  const keys = names('n:pipe', 500);
  const replies = await Promise.all(
    keys.flatMap((key, index) => [client.set(key, `${index}`), client.get(key)]));
  keys.forEach((_, index) => assert.equal(replies[2 * index + 1], `${index}`));
}

async function scripts(client) {
  const script = 'return {KEYS[1], ARGV[1], redis.call("GET", KEYS[1])}';
  for (const key of names('n:script', 10)) {
    await client.set(key, 'v');
    assert.deepEqual(await client.eval(script, { keys: [key], arguments: ['a'] }), [key, 'a', 'v']);
  }
}

async function errors(client) {
  await client.set('n:string', 'x');
  assert.match(await failure(client.lPush('n:string', 'y')), /WRONGTYPE/);
  assert.match(await failure(client.evalSha('0'.repeat(40), { keys: ['n:string'] })), /NOSCRIPT/);
  assert.equal(await client.get('n:string'), 'x');
}

async function largeValues(client) {
  const value = 'x'.repeat(8 << 20);
  await client.set('n:large', value);
  assert.ok(await client.get('n:large') === value);
  await client.del('n:large');
}

async function reconnect(client) {
  const killer = redis.createClient({ RESP: resp, socket });
  await killer.connect();
  assert.ok(await killer.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal']) >= 1);
  await eventually(async () => {
    await client.set('n:again', 'back');
    assert.equal(await client.get('n:again'), 'back');
  });
  killer.destroy();
}

async function identity(client) {
  assert.equal(await client.ping(), 'PONG');
  assert.equal(await client.clientGetName(), 'acceptance');
  assert.ok(await client.clientId() > 0);
  assert.match(await client.info(), /redis_version:\d/);
  assert.match(await client.sendCommand(['CLIENT', 'LIST']), /lib-name=node-redis/);
}

run(make(), {
  connect: (client) => client.connect(),
  ...(mode === 'plain' ? { identity } : {}),
  values,
  collections,
  manySlots,
  pipelines,
  scripts,
  errors,
  largeValues,
  reconnect,
  close: (client) => client.close(),
});
