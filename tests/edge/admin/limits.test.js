// What is used and left, and forgetting it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses, tiers } from '../support/client.js';
import { problem } from '../support/fields.js';
import { limit, policy } from '../support/policy.js';
import { useWorld } from '../support/world.js';
import { call, everything } from './api.js';

const world = useWorld();

const ALGORITHMS = ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket'];

describe('GET limits', () => {
  test('says what is used and left of every algorithm, and charges nothing', async () => {
    const edge = await world.gateway(
      policy(ALGORITHMS.map((algorithm) => limit(algorithm, { algorithm, limit: 5, window: '1h' }))),
    );
    for (let sent = 0; sent < 2; sent += 1) await edge.send('/a');
    const before = await everything(world);
    assert.equal(Object.keys(before).length, 4);
    for (const name of ALGORITHMS) {
      for (let looked = 0; looked < 10; looked += 1) {
        const known = (await call(edge, 'GET', `limits/${name}/192.0.2.1`)).json();
        const { limit: most, capacity, used, remaining, reset_ms, ...rest } = known;
        assert.deepEqual([most, capacity, used, remaining], [5, 5, 2, 3], name);
        assert.ok(reset_ms > 0 && reset_ms <= 7_200_000, name);
        const said = { name, plan: null, tier: 'store', unlimited: false, banned: false, retry_after_ms: null };
        assert.deepEqual(rest, said);
      }
    }
    assert.deepEqual(await everything(world), before);
  });

  test('one store command, a stranger has all, and nothing is written for it', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    await edge.send('/a', { ip: '192.0.2.9' });
    const before = await everything(world);
    await world.resetCommands();
    const known = (await call(edge, 'GET', 'limits/a/192.0.2.77')).json();
    assert.deepEqual([known.used, known.remaining], [0, 3]);
    assert.deepEqual(await world.commands(), { evalsha: 1, mget: 1 });
    assert.deepEqual(await everything(world), before);
  });

  test('the burst is the capacity of a token bucket, under an override in proportion', async () => {
    const bucket = limit('a', { algorithm: 'token-bucket', limit: 10, burst: 25, window: '1h' });
    const edge = await world.gateway(policy([bucket]));
    await edge.send('/a');
    const known = (await call(edge, 'GET', 'limits/a/192.0.2.1')).json();
    assert.deepEqual([known.limit, known.capacity, known.used, known.remaining], [10, 25, 1, 24]);
    await call(edge, 'PUT', 'overrides/a/192.0.2.1', { limit: 100 });
    const raised = (await call(edge, 'GET', 'limits/a/192.0.2.1')).json();
    assert.deepEqual([raised.limit, raised.capacity, raised.used], [100, 250, 1]);
  });

  test('by plan, or says which are known', async () => {
    const planned = limit('a', { plan: 'header:x-plan', plans: { pro: 50, staff: 'unlimited', none: 'blocked' } });
    const edge = await world.gateway(policy([planned]));
    await edge.send('/a', { headers: { 'x-plan': 'pro' } });
    const known = async (/** @type {string} */ query) => (await call(edge, 'GET', `limits/a/192.0.2.1${query}`)).json();
    const { plan, limit: most, used, remaining } = await known('?plan=pro');
    assert.deepEqual([plan, most, used, remaining], ['pro', 50, 1, 49]);
    assert.deepEqual([(await known('')).plan, (await known('')).limit], [null, 3]);
    const staff = await known('?plan=staff');
    assert.deepEqual([staff.unlimited, staff.limit, staff.remaining], [true, null, null]);
    const none = await known('?plan=none');
    assert.deepEqual([none.banned, none.limit, none.remaining], [true, 0, 0]);
    const unknown = problem(await call(edge, 'GET', 'limits/a/192.0.2.1?plan=pr%6F2'), 400);
    assert.match(unknown.detail, /no plan "pro2"; known are: none, pro, staff/);
  });

  test('without a store, of the isolate’s own table', async () => {
    const edge = await world.gateway(policy([limit('a')]), { UPSTASH_REDIS_REST_URL: undefined });
    await edge.send('/a');
    const known = (await call(edge, 'GET', 'limits/a/192.0.2.1')).json();
    assert.deepEqual([known.tier, known.used, known.remaining], ['isolate', 1, 2]);
    assert.equal((await call(edge, 'DELETE', 'limits/a/192.0.2.1')).json().forgotten, true);
    assert.equal((await call(edge, 'DELETE', 'limits/a/192.0.2.1')).json().forgotten, false);
    assert.equal((await call(edge, 'GET', 'limits/a/192.0.2.1')).json().used, 0);
    assert.equal(world.store.stats.requests, 0);
  });
});

describe('DELETE limits', () => {
  test('forgets one subject in one limit, and touches no other key', async () => {
    const text = policy([limit('a'), limit('b'), limit('a2')]);
    const edge = await world.gateway(text, {}, {});
    for (const ip of ['192.0.2.1', '192.0.2.2', '192.0.2.11']) await edge.send('/a', { ip });
    await call(edge, 'PUT', 'overrides/a/192.0.2.1', { limit: 9 });
    await call(edge, 'PUT', 'overrides/a/192.0.2.2', { limit: 9 });
    const before = await everything(world);
    assert.equal(Object.keys(before).length, 11);
    await world.resetCommands();
    assert.deepEqual((await call(edge, 'DELETE', 'limits/a/192.0.2.1')).json(), { name: 'a', forgotten: true });
    assert.deepEqual(await world.commands(), { del: 1 });
    const gone = Object.keys(before).filter((key) => /^sg:1:a:f[^:]+:192\.0\.2\.1$/.test(key));
    assert.equal(gone.length, 1);
    delete before[gone[0]];
    assert.deepEqual(await everything(world), before);
    assert.equal((await call(edge, 'DELETE', 'limits/a/192.0.2.1')).json().forgotten, false);
    assert.equal((await call(edge, 'GET', 'limits/a/192.0.2.1')).json().limit, 9, 'the override stays');
  });

  test('also what the isolate remembers: who was refused passes at once', async () => {
    const edge = await world.gateway(policy([limit('a')], undefined, { store: { remember: '10m' } }));
    const replies = await many(6, () => edge.send('/a'), 1);
    assert.deepEqual(
      [statuses(replies), tiers(replies)],
      [
        { 200: 3, 429: 3 },
        { store: 4, cache: 2 },
      ],
    );
    await call(edge, 'DELETE', 'limits/a/192.0.2.1');
    const later = await many(6, () => edge.send('/a'), 1);
    assert.deepEqual(
      [statuses(later), tiers(later)],
      [
        { 200: 3, 429: 3 },
        { store: 4, cache: 2 },
      ],
    );
  });

  test('also the isolate’s own count for the time when the store is down', async () => {
    const degraded = limit('a', { limit: 10, on_store_error: 'degraded' });
    const edge = await world.gateway(
      policy([degraded], undefined, { degraded: { share: 0.3 }, store: { remember: '0s' } }),
    );
    await many(10, () => edge.send('/a'), 1);
    await call(edge, 'DELETE', 'limits/a/192.0.2.1');
    world.store.faults.always(FAULTS.html502);
    assert.deepEqual(statuses(await many(6, () => edge.send('/a'), 1)), { 200: 3, 429: 3 });
  });
});

describe('when the store fails', () => {
  /** Of another shape than any command's reply. */
  const OTHER = /** @type {const} */ ({ kind: 'reply', status: 200, body: '{"result":[7]}' });

  test('503 that says so, with Retry-After, and nothing is taken for granted', async () => {
    const edge = await world.gateway(policy([limit('a')], undefined, { store: { retry: { budget: 0 } } }));
    await many(4, () => edge.send('/a'), 1);
    for (const [method, path, body] of [
      ['GET', 'limits/a/192.0.2.1'],
      ['DELETE', 'limits/a/192.0.2.1'],
      ['GET', 'overrides/a/192.0.2.1'],
      ['PUT', 'overrides/a/192.0.2.1', '{"limit":5}'],
      ['DELETE', 'overrides/a/192.0.2.1'],
    ]) {
      for (const fault of [FAULTS.html502, FAULTS.resetBefore, OTHER]) {
        world.store.faults.clear();
        world.store.faults.always(fault);
        world.store.stats.reset();
        const reply = await call(edge, method, path, body);
        const said = problem(reply, 503);
        assert.equal(reply.headers['retry-after'], String(said.retry_after), method);
        assert.equal(world.store.stats.requests, 1, 'one call');
      }
    }
    world.store.faults.clear();
    assert.equal((await call(edge, 'GET', 'limits/a/192.0.2.1')).json().used, 3);
  });

  test('a change whose reply was lost may have been made, so nothing is remembered against it', async () => {
    const edge = await world.gateway(policy([limit('a')], undefined, { store: { remember: '10m' } }));
    assert.deepEqual(tiers(await many(5, () => edge.send('/a'), 1)), { store: 4, cache: 1 });
    world.store.faults.push(FAULTS.cut);
    const reply = await call(edge, 'DELETE', 'limits/a/192.0.2.1');
    assert.match(problem(reply, 503).detail, /may or may not have been done/);
    assert.deepEqual(statuses([await edge.send('/a')]), { 200: 1 });
  });
});
