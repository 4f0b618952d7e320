// Runs named checks one after the other and says how each went. Arguments: HOST PORT [MODE [RESP]].
// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert');

const LIMIT_MS = 30000;
const [host, port, mode = 'plain', resp = '3'] = process.argv.slice(2);
const failed = [];
let passed = 0;

async function check(name, body) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('takes too long')), LIMIT_MS);
  });
  try {
    await Promise.race([body(), limit]);
    passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    failed.push(name);
    console.log(`FAIL ${name}: ${String((error && error.message) || error).split('\n')[0]}`);
  } finally {
    clearTimeout(timer);
  }
}

// Resolves with the message of the error that `promise` is to fail with.
async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error.message;
  }
  throw new Error('it should have failed');
}

// Tries `body` until it succeeds, for some seconds: a client that reconnects may fail meanwhile.
async function eventually(body) {
  for (let left = 100; ; left -= 1) {
    try {
      return await body();
    } catch (error) {
      if (left === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

const names = (prefix, count) => [...Array(count).keys()].map((index) => `${prefix}:${index}`);

// Does all of it with one client, in this order.
async function run(client, checks) {
  for (const [name, body] of Object.entries(checks)) await check(name, () => body(client));
  console.log(`${passed} passed, ${failed.length} failed`);
  process.exit(failed.length === 0 ? 0 : 1);
}

module.exports = {
  assert, failure, eventually, names, run, host, mode, port: Number(port), resp: Number(resp),
};
