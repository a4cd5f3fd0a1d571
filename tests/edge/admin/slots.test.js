// The admin API over a concurrency limit: looked at, given another number, banned; its holders are nobody's to forget.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problem } from '../support/fields.js';
import { policy } from '../support/policy.js';
import { useWorld } from '../support/world.js';
import { call } from './api.js';

const world = useWorld();

const text = policy(
  [{ name: 'runs', algorithm: 'concurrency', limit: 1, lease: '1m', key: ['global'], on_store_error: 'closed' }],
  [],
);

/** Every key with its members. */
const everything = () =>
  world
    .keys()
    .then((keys) => Promise.all(keys.map(async (key) => [key, await world.client.zRangeWithScores(key, 0, -1)])));

test('what is held and left, without taking a slot', async () => {
  const edge = await world.gateway(text);
  await call(edge, 'POST', 'slots/runs/-', { id: 'one' });
  const before = await everything();
  const looked = (await call(edge, 'GET', 'limits/runs/-')).json();
  assert.deepEqual([looked.limit, looked.used, looked.remaining], [1, 1, 0]);
  assert.deepEqual(await everything(), before);
});

test('holders are not forgotten', async () => {
  const edge = await world.gateway(text);
  await call(edge, 'POST', 'slots/runs/-', { id: 'one' });
  const before = await everything();
  problem(await call(edge, 'DELETE', 'limits/runs/-'), 409);
  assert.deepEqual(await everything(), before);
});

test('another number of slots, and none', async () => {
  const edge = await world.gateway(text);
  assert.equal((await call(edge, 'PUT', 'overrides/runs/-', { limit: 2 })).status, 200);
  const statuses = [];
  for (const id of ['one', 'two', 'three']) statuses.push((await call(edge, 'POST', 'slots/runs/-', { id })).status);
  assert.deepEqual(statuses, [201, 201, 429]);
  assert.equal((await call(edge, 'PUT', 'overrides/runs/-', { limit: 0 })).status, 200);
  assert.equal((await call(edge, 'POST', 'slots/runs/-', { id: 'four' })).status, 429);
  problem(await call(edge, 'PUT', 'overrides/runs/-', { limit: 10_001 }), 400);
});
