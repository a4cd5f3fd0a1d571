// Every call wants the token; nothing is done or told without it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problem } from '../support/fields.js';
import { limit, policy } from '../support/policy.js';
import { ADMIN_TOKEN, useWorld } from '../support/world.js';
import { call, everything } from './api.js';

const world = useWorld();
const text = policy([limit('a')]);

const CALLS = /** @type {[string, string, string?][]} */ ([
  ['GET', 'status'],
  ['GET', 'metrics'],
  ['POST', 'check', '{"limits":["a"],"subject":{"ip":"192.0.2.1"}}'],
  ['GET', 'limits/a/192.0.2.1'],
  ['DELETE', 'limits/a/192.0.2.1'],
  ['GET', 'overrides/a/192.0.2.1'],
  ['PUT', 'overrides/a/192.0.2.1', '{"limit":0}'],
  ['DELETE', 'overrides/a/192.0.2.1'],
  ['GET', 'limits/nosuch/x'],
  ['GET', 'nosuch'],
]);

test('missing or wrong: 401, whatever is asked, and the store is not', async () => {
  const edge = await world.gateway(text);
  await edge.send('/a');
  const before = await everything(world);
  world.store.stats.reset();
  for (const [method, path, body] of CALLS) {
    for (const authorization of [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      ADMIN_TOKEN,
      `Basic ${ADMIN_TOKEN}`,
      `Bearer ${ADMIN_TOKEN.slice(1)}`,
      `Bearer ${ADMIN_TOKEN.slice(0, -1)}`,
      `Bearer ${ADMIN_TOKEN}x`,
      `Bearer ${ADMIN_TOKEN.toUpperCase()}`,
      `Bearer x, Bearer ${ADMIN_TOKEN}`,
    ]) {
      /** @type {Record<string, string>} */
      const headers = authorization === undefined ? {} : { authorization };
      const reply = await call(edge, method, path, body, { headers });
      assert.equal(problem(reply, 401).title, 'Unauthorized', `${method} ${path} ${authorization}`);
      assert.equal(reply.headers['www-authenticate'], 'Bearer');
    }
  }
  assert.equal(world.store.stats.requests, 0);
  assert.deepEqual(await everything(world), before);
});

test('without ADMIN_TOKEN there is no API, and with an empty one neither', async () => {
  for (const token of [undefined, '']) {
    const edge = await world.gateway(text, { ADMIN_TOKEN: token });
    for (const [method, path, body] of CALLS) problem(await call(edge, method, path, body), 404);
  }
});

test('health wants no token and asks no store', async () => {
  const edge = await world.gateway(text);
  const reply = await edge.send('/.sluicegate/health');
  assert.deepEqual([reply.status, reply.json()], [200, { status: 'ok' }]);
  assert.equal(world.store.stats.requests, 0);
});
