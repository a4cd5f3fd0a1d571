// What an isolate says of itself: status, metrics, log lines and data points, after the same requests.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses } from '../support/client.js';
import { limit, policy, route } from '../support/policy.js';
import { DIALECT, until, useWorld } from '../support/world.js';
import { call } from './api.js';
import { counted, parse } from './openmetrics.js';

const world = useWorld();

const text = policy(
  [
    limit('a'),
    limit('wide', { limit: 100, on_store_error: 'degraded' }),
    limit('shadowed', { limit: 1, shadow: true, on_store_error: 'open' }),
  ],
  [route('/a', ['a', 'wide', 'shadowed']), route('/wide', ['wide'])],
);

/** Six requests one after the other: three pass, one is refused by the store, two by the isolate. */
async function six() {
  const edge = await world.gateway(text);
  assert.deepEqual(statuses(await many(6, () => edge.send('/a'), 1)), { 200: 3, 429: 3 });
  return edge;
}

describe('status', () => {
  test('counts what was decided, without a store call, and says that it is one isolate’s view', async () => {
    const edge = await six();
    world.store.stats.reset();
    const status = (await call(edge, 'GET', 'status')).json();
    assert.equal(world.store.stats.requests, 0);
    assert.match(status.scope, /this isolate alone/);
    assert.deepEqual(status.decisions, { allowed: 3, refused: 3 });
    assert.deepEqual(
      status.limits.map((/** @type {any} */ { name, allowed, refused, spared, shadowed, tiers }) => {
        return [name, allowed, refused, spared, shadowed, tiers];
      }),
      [
        ['a', 3, 3, 0, 0, { store: 4, cache: 2 }],
        ['wide', 3, 0, 3, 0, { store: 4, cache: 2 }],
        // The first of the three fits it; one that the cache refused did not ask it.
        ['shadowed', 1, 0, 2, 3, { store: 4, cache: 2 }],
      ],
    );
    assert.deepEqual(
      [status.tier, status.store.breaker.state, status.store.dialect],
      ['store', 'closed', DIALECT ?? 'redis'],
    );
    // The script's text went once, after NOSCRIPT, unless another test's gateway had brought it.
    assert.ok(status.store.calls >= 4 && status.store.calls <= 5, String(status.store.calls));
    assert.equal(status.store.latency_ms.calls, status.store.calls);
    assert.ok(status.store.latency_ms.p99 >= status.store.latency_ms.p50);
    assert.deepEqual([status.memory.refusals, status.store.in_flight], [1, 0]);
    const again = (await call(edge, 'GET', 'status')).json();
    assert.equal(again.isolate, status.isolate);
    assert.ok(again.uptime_ms >= status.uptime_ms);
  });

  test('counts what was begun ahead of its decision, and what was thrown away', async () => {
    const edge = await world.gateway(policy([limit('a')], [route('/a', ['a'], { optimistic: true })]));
    // Three pass, one is refused by the store, two by the isolate.
    await many(6, () => edge.send('/a'), 1);
    await edge.send('/a', { method: 'POST', ip: '192.0.2.2' });
    const { optimistic } = (await call(edge, 'GET', 'status')).json();
    assert.deepEqual(optimistic, { begun: 4, discarded: 1, held_back: 0 });
    const { samples } = parse((await call(edge, 'GET', 'metrics')).text).get('sluicegate_optimistic') ?? {
      samples: [],
    };
    const counts = samples.map(({ labels, value }) => [labels.what, value]);
    assert.deepEqual(Object.fromEntries(counts), { begun: 4, discarded: 1, 'held-back': 0 });
  });

  test('two isolates tell themselves apart', async () => {
    const edges = await Promise.all([world.gateway(text), world.gateway(text)]);
    const [one, other] = await Promise.all(edges.map(async (edge) => (await call(edge, 'GET', 'status')).json()));
    assert.notEqual(one.isolate, other.isolate);
    assert.equal(one.policy.digest, other.policy.digest);
  });

  test('says when the store fails, and when there is none', async () => {
    const breaker = { window: '10s', min_calls: 1, open: '10m', max_open: '10m', long_open: '10m' };
    const edge = await world.gateway({ ...text, store: { timeout: '10s', breaker } });
    world.store.faults.always(FAULTS.html502);
    await many(3, () => edge.send('/wide'), 1);
    const { tier, store, limits } = (await call(edge, 'GET', 'status')).json();
    assert.deepEqual([tier, store.breaker.state, store.failures.malformed], ['degraded', 'open', 1]);
    assert.ok(store.breaker.opens_for_ms > 0);
    assert.equal(store.kept_back.breaker, 2);
    assert.deepEqual(limits[1].tiers, { degraded: 3 });
    const alone = await world.gateway(text, { UPSTASH_REDIS_REST_URL: undefined });
    const without = (await call(alone, 'GET', 'status')).json();
    assert.deepEqual([without.tier, without.store], ['isolate', null]);
  });
});

describe('metrics', () => {
  test('OpenMetrics of the isolate that answers', async () => {
    const edge = await six();
    world.store.stats.reset();
    const reply = await call(edge, 'GET', 'metrics');
    assert.equal(world.store.stats.requests, 0);
    const families = parse(reply.text);
    assert.deepEqual(counted(families, 'sluicegate_decisions'), {
      'store allowed': 3,
      'store refused quota-exceeded': 1,
      'cache refused quota-exceeded': 2,
    });
    assert.deepEqual(counted(families, 'sluicegate_limit_decisions'), {
      'a store allowed': 3,
      'a store refused quota-exceeded': 1,
      'a cache refused quota-exceeded': 2,
      'wide store allowed': 3,
      'wide store spared': 1,
      'wide cache spared': 2,
      'shadowed store allowed': 1,
      'shadowed store shadowed': 3,
      'shadowed cache spared': 2,
    });
    assert.deepEqual(counted(families, 'sluicegate_breaker'), { closed: 1 });
    const { isolate } = (await call(edge, 'GET', 'status')).json();
    assert.equal(families.get('sluicegate_isolate')?.samples[0].labels.isolate, isolate);
    assert.match(String(families.get('sluicegate_isolate')?.help), /this isolate's alone/);
    const latency = families.get('sluicegate_store_latency_seconds');
    assert.equal(latency?.unit, 'seconds');
    const calls = latency?.samples.find(({ name }) => name.endsWith('_count'))?.value;
    assert.equal(calls, families.get('sluicegate_store_calls')?.samples[0].value);
    for (const { help } of families.values()) assert.notEqual(help, '');
  });

  test('of an isolate without a store, and of names that need care', async () => {
    const odd = policy([limit("odd'name$*", { limit: 1 })]);
    const edge = await world.gateway(odd, { UPSTASH_REDIS_REST_URL: undefined });
    await many(2, () => edge.send('/a'), 1);
    const families = parse((await call(edge, 'GET', 'metrics')).text);
    assert.deepEqual(counted(families, 'sluicegate_limit_decisions'), {
      "odd'name$* isolate allowed": 1,
      "odd'name$* isolate refused quota-exceeded": 1,
    });
    assert.equal(families.has('sluicegate_store_calls'), false);
  });
});

describe('the log', () => {
  test('a flood of refusals has a bounded number of lines; what is left out is counted', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 1 })], undefined, { store: { remember: '10m' } }));
    const began = Date.now();
    await edge.send('/a');
    await many(1_000, () => edge.send('/a'), 32);
    const seconds = (Date.now() - began) / 1000;
    const { refusals_not_logged: left, decisions } = (await call(edge, 'GET', 'status')).json();
    assert.deepEqual(decisions, { allowed: 1, refused: 1_000 });
    const lines = () => edge.log().filter(({ event }) => event === 'refused');
    await until(() => lines().length === 1_000 - left, 'the lines');
    assert.ok(lines().length >= 100 && lines().length <= 101 + 10 * seconds, `${lines().length} in ${seconds} s`);
    const said = lines().reduce((sum, { left_out = 0 }) => sum + left_out, 0);
    assert.ok(said <= left);
    assert.equal(lines()[0].left_out, undefined);
  });

  test('a check’s refusal has no route', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 1 })]));
    for (let asked = 0; asked < 2; asked += 1) await edge.check({ limits: ['a'], subject: { ip: '192.0.2.1' } });
    const [line] = await edge.logged('refused');
    assert.deepEqual([line.route, line.limit, line.tier], [null, 'a', 'store']);
  });

  test('looks and changes through the API leave no line and no count', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    await call(edge, 'PUT', 'overrides/a/192.0.2.1', { limit: 0 });
    await call(edge, 'GET', 'limits/a/192.0.2.1');
    assert.deepEqual((await call(edge, 'GET', 'status')).json().decisions, { allowed: 0, refused: 0 });
    assert.deepEqual(edge.log(), []);
  });
});

describe('Analytics Engine', () => {
  /** Stands in for the binding: what is written goes to the log. */
  const ANALYTICS = `export default () => ({
    writeDataPoint(point) { console.log(JSON.stringify({ event: 'point', ...point })); },
  });`;

  test('one data point a decision, of digests only', async () => {
    const edge = await world.gateway(text, {}, {}, { wrapped: { ANALYTICS } });
    await many(5, () => edge.send('/a', { ip: '192.0.2.199' }), 1);
    await edge.check({ limits: ['wide'], subject: { ip: '192.0.2.199' } });
    const points = () => edge.log().filter(({ event }) => event === 'point');
    await until(() => points().length === 6, 'six points');
    const subject = points()[0].indexes[0];
    assert.match(subject, /^[\w-]{20}$/);
    const { digest } = (await call(edge, 'GET', 'status')).json().policy;
    for (const { indexes, blobs, doubles } of points()) {
      assert.deepEqual([indexes.length, blobs.length, doubles.length], [1, 8, 6]);
      assert.ok(doubles.every(Number.isFinite));
      assert.deepEqual([indexes[0], blobs[5], blobs[6]], [subject, subject, digest]);
    }
    assert.deepEqual(
      points().map(({ blobs }) => [...blobs.slice(0, 5), blobs[7]]),
      [
        ['shadowed', 'allowed', 'store', '', '_a', ''],
        ['shadowed', 'allowed', 'store', '', '_a', 'shadowed'],
        ['a', 'allowed', 'store', '', '_a', 'shadowed'],
        ['a', 'refused', 'store', 'quota-exceeded', '_a', 'shadowed'],
        ['a', 'refused', 'cache', 'quota-exceeded', '_a', ''],
        ['wide', 'allowed', 'store', '', '', ''],
      ],
    );
    const [cost, most, remaining, , wait, several] = points()[3].doubles;
    assert.deepEqual([cost, most, remaining, several], [1, 3, 0, 3]);
    assert.ok(wait > 0);
    assert.ok(!edge.logText().includes('192.0.2.199'));
  });

  test('a binding that throws, or is none, changes no decision', async () => {
    const broken = 'export default () => ({ writeDataPoint() { throw new Error("no"); } });';
    for (const options of [
      { wrapped: { ANALYTICS: broken } },
      { wrapped: { ANALYTICS: 'export default () => ({});' } },
    ]) {
      const edge = await world.gateway(policy([limit('a')]), {}, {}, options);
      assert.deepEqual(statuses(await many(4, () => edge.send('/a', { ip: '192.0.2.7' }), 1)), { 200: 3, 429: 1 });
      await world.client.flushAll();
    }
  });
});
