// The breaker and the bulkhead, seen from outside: which requests reach a store that fails, and which no longer do.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses, tiers } from '../support/client.js';
import { look, transitions } from '../support/failing.js';
import { problem } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld({ scriptKnown: true });

const LIMITS = [
  limit('open', { limit: 100_000, on_store_error: 'open' }),
  limit('closed', { limit: 100_000, on_store_error: 'closed' }),
];
const ROUTES = [route('/open', ['open']), route('/closed', ['closed'])];

/** Fields of the breaker beside these: it opens for longer than a test runs, and never retries. */
const LASTING = { window: '1m', min_calls: 5, open: '10m', max_open: '10m', long_open: '10m' };

/** @param {Record<string, unknown>} [breaker] @param {Record<string, unknown>} [store] */
const withBreaker = (breaker, store) =>
  policy(LIMITS, ROUTES, {
    store: { remember: '0s', retry: { budget: 0 }, breaker: { ...LASTING, ...breaker }, ...store },
  });

/** One that opens for a moment. */
const BRIEF = { open: '60ms', max_open: '60ms' };

const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

const asked = () => world.store.stats.requests;

describe('opens', () => {
  test('at the failure that makes min_calls, and then asks the store no more', async () => {
    const edge = await world.gateway(withBreaker());
    world.store.faults.always(FAULTS.html502);
    await many(4, () => edge.send('/open'), 1);
    const before = problem(await edge.send('/closed'), 503);
    assert.ok(before.retry_after >= 300 && before.retry_after <= 600, `opened, for ${before.retry_after} s`);
    assert.equal(asked(), 5);
    const replies = await many(40, (index) => edge.send(index % 2 ? '/open' : '/closed'));
    assert.deepEqual(
      [statuses(replies), tiers(replies)],
      [
        { 200: 20, 503: 20 },
        { open: 20, closed: 20 },
      ],
    );
    assert.equal(asked(), 5);
    world.store.faults.clear();
    assert.equal((await edge.send('/open')).headers['sluicegate-tier'], 'open', 'it is open for a time, not by chance');
    assert.equal(asked(), 5);
    assert.deepEqual(transitions(await edge.logged('store-failing')), ['store-failing malformed']);
  });

  test('not before: four failures, or five among twenty calls', async () => {
    const edge = await world.gateway(withBreaker());
    assert.equal(problem(await failOnce(edge), 503).retry_after, 1);
    await many(15, () => edge.send('/open'), 1);
    for (let failures = 0; failures < 4; failures += 1) {
      assert.equal(problem(await failOnce(edge), 503).retry_after, 1);
    }
    assert.equal((await edge.send('/open')).headers['sluicegate-tier'], 'store');
  });

  test('Retry-After of `closed` says when it will have closed', async () => {
    const edge = await world.gateway(withBreaker({ min_calls: 1, open: '20s', max_open: '20s' }));
    world.store.faults.always(FAULTS.resetBefore);
    await edge.send('/open');
    const replies = await many(5, () => edge.send('/closed'));
    for (const reply of replies) {
      const { retry_after } = problem(reply, 503);
      assert.ok(retry_after >= 5 && retry_after <= 20, `after ${retry_after} s`);
      assert.equal(reply.headers['retry-after'], String(retry_after));
    }
    assert.equal(asked(), 1);
  });

  for (const [name, fault, reason] of /** @type {const} */ ([
    ['a wrong token', FAULTS.unauthorized, 'misconfigured'],
    ['a token that may not', FAULTS.noPerm, 'misconfigured'],
    ['a quota used up', FAULTS.requestsExceeded, 'quota'],
    ['a suspended database', FAULTS.suspended, 'quota'],
  ])) {
    test(`at once and for long on ${name}`, async () => {
      const edge = await world.gateway(withBreaker({ min_calls: 1000, open: '10ms', max_open: '10ms' }));
      world.store.faults.push(fault);
      const first = problem(await edge.send('/closed'), 503);
      assert.ok(first.retry_after >= 300 && first.retry_after <= 600, `for ${first.retry_after} s`);
      assert.deepEqual(tiers(await many(20, () => edge.send('/open'))), { open: 20 });
      assert.equal(asked(), 1);
      assert.deepEqual(transitions(await edge.logged('store-failing')), [`store-failing ${reason}`]);
    });
  }

  test('on a 429, for no less than it asks', async () => {
    const edge = await world.gateway(withBreaker({ min_calls: 1000, open: '10ms', max_open: '10ms' }));
    world.store.faults.push(FAULTS.tooManyRequests(1));
    const began = performance.now();
    assert.ok(problem(await edge.send('/closed'), 503).retry_after <= 2);
    await until(async () => (await edge.send('/open')).headers['sluicegate-tier'] === 'store', 'the store to be asked');
    assert.ok(performance.now() - began >= 999, 'the store was asked before the second was over');
  });

  test('on answers beyond slow_call, and says so', async () => {
    const edge = await world.gateway(withBreaker({ slow_call: '30ms' }));
    world.store.faults.push(FAULTS.delay(60), 5);
    const slow = await many(5, () => edge.send('/open'));
    assert.deepEqual(tiers(slow), { store: 5 });
    const replies = await many(10, () => edge.send('/open'));
    assert.deepEqual(tiers(replies), { open: 10 });
    assert.deepEqual(transitions(await edge.logged('store-failing')), ['store-failing slow']);
  });

  test('on slow answers for a time, and says when it is over', async () => {
    const edge = await world.gateway(withBreaker({ slow_call: '100ms', ...BRIEF }));
    world.store.faults.push(FAULTS.delay(200), 5);
    assert.deepEqual(tiers(await many(5, () => edge.send('/open'))), { store: 5 });
    await edge.logged('store-failing');
    await until(() => edge.send('/open').then(() => transitions(edge.log()).length === 2), 'the store to be back');
    assert.deepEqual(transitions(edge.log()), ['store-failing slow', 'store-recovered']);
  });

  for (const fault of /** @type {const} */ (['wrongType', 'scriptError', 'dynamicKey', 'shebangRefused', 'noscript'])) {
    test(`not on what says nothing about the store: ${fault}`, async () => {
      const edge = await world.gateway(withBreaker());
      world.store.faults.always(FAULTS[fault]);
      await many(20, () => edge.send('/open'));
      assert.equal(asked(), fault === 'noscript' ? 40 : 20);
      world.store.faults.clear();
      assert.equal((await edge.send('/open')).headers['sluicegate-tier'], 'store');
    });
  }

  /** @param {import('../support/world.js').Edge} edge */
  function failOnce(edge) {
    world.store.faults.push(FAULTS.internal500);
    return edge.send('/closed');
  }
});

describe('half-open', () => {
  /** @param {import('../support/world.js').Edge} edge */
  async function opened(edge) {
    world.store.faults.always(FAULTS.html502);
    await many(5, () => edge.send('/open'), 1);
    world.store.faults.clear();
    // No longer than it can be open.
    await sleep(61);
    world.store.stats.reset();
  }

  for (const probes of [1, 2, 5]) {
    test(`${probes} at once and no more; closes when they succeed`, async () => {
      const edge = await world.gateway(withBreaker({ ...BRIEF, probes }));
      await opened(edge);
      /** @type {PromiseWithResolvers<void>} */
      const { promise, resolve } = Promise.withResolvers();
      world.store.faults.always(FAULTS.hold(promise));
      let answered = 0;
      const replies = many(60, () => edge.send('/open').finally(() => (answered += 1)));
      await until(() => answered >= 60 - probes && asked() >= probes, 'all but the probes to be answered');
      resolve();
      assert.deepEqual(tiers(await replies), { store: probes, open: 60 - probes });
      assert.equal(asked(), probes);
      world.store.faults.clear();
      assert.deepEqual(tiers(await many(60, () => edge.send('/open'))), { store: 60 });
      await edge.logged('store-recovered');
      assert.deepEqual(transitions(edge.log()), ['store-failing malformed', 'store-recovered']);
    });
  }

  test('opens again at the first probe that fails, for longer than before', async () => {
    const edge = await world.gateway(withBreaker({ open: '60ms', max_open: '10m' }));
    await opened(edge);
    world.store.faults.always(FAULTS.html502);
    /** @type {number[]} */
    const gaps = [];
    for (let round = 0; round < 3; round += 1) {
      const [before, began] = [asked(), performance.now()];
      await until(async () => {
        await edge.send('/open');
        return asked() > before;
      }, 'a probe');
      gaps.push(performance.now() - began);
    }
    assert.equal(asked(), 3, 'more than one probe failed before it opened');
    // After the first probe it is open for 60 to 120 ms, after the second for 120 to 240.
    assert.ok(gaps[1] >= 59 && gaps[2] >= 119, `${gaps}`);
    assert.deepEqual(transitions(await edge.logged('store-failing')), ['store-failing malformed']);
  });

  test('a client that leaves while its request is the probe gives the permit back', async () => {
    // Whether workerd ends its request with it or not.
    const edge = await world.gateway(withBreaker({ ...BRIEF, probes: 1 }, { timeout: '1s' }));
    await opened(edge);
    world.store.faults.push(FAULTS.stall);
    const outgoing = request(`${edge.url}/open`, { headers: { 'cf-connecting-ip': '192.0.2.1' } });
    outgoing.on('error', () => {});
    outgoing.end();
    await until(() => asked() === 1, 'the probe');
    outgoing.destroy();
    assert.deepEqual(tiers(await many(10, () => edge.send('/open'))), { open: 10 });
    assert.equal(asked(), 1, 'a second probe beside the first');
    await until(async () => (await edge.send('/open')).headers['sluicegate-tier'] === 'store', 'another probe');
    assert.deepEqual(tiers(await many(10, () => edge.send('/open'))), { store: 10 });
  });
});

describe('the bulkhead', () => {
  test('max_in_flight = 2: the third is answered by its policy while two wait', { timeout: 30_000 }, async () => {
    const edge = await world.gateway(withBreaker({ min_calls: 1000 }, { max_in_flight: 2, timeout: '2s' }));
    world.store.faults.always(FAULTS.stall);
    let waiting = 2;
    const first = many(2, () => edge.send('/open').finally(() => (waiting -= 1)));
    await until(() => asked() === 2, 'two calls');
    const beyond = await many(10, (index) => edge.send(index % 2 ? '/open' : '/closed'));
    assert.equal(waiting, 2, 'the policy answered no sooner than the deadline');
    assert.deepEqual(tiers(beyond), { open: 5, closed: 5 });
    assert.equal(problem(beyond[0], 503).retry_after, 1);
    assert.equal(asked(), 2);
    assert.deepEqual(transitions(edge.log()), [], 'a full bulkhead is no failure of the store’s');
    assert.deepEqual(tiers(await first), { open: 2 });
    world.store.faults.clear();
    assert.deepEqual(tiers(await many(2, () => edge.send('/open'))), { store: 2 });
  });

  test('clients that left do not fill it for good', async () => {
    const edge = await world.gateway(withBreaker({ min_calls: 1000 }, { max_in_flight: 2, timeout: '100ms' }));
    world.store.faults.push(FAULTS.stall, 2);
    for (let left = 0; left < 2; left += 1) {
      const outgoing = request(`${edge.url}/open`, { headers: { 'cf-connecting-ip': '192.0.2.1' } });
      outgoing.on('error', () => {});
      outgoing.end();
      await until(() => asked() === left + 1, 'a call');
      outgoing.destroy();
    }
    await until(async () => (await look(edge, 'open', '192.0.2.1')) === 100_000, 'room for a call');
  });
});

test('300 requests through an outage and back: one line for each transition', async () => {
  const edge = await world.gateway(withBreaker({ open: '300ms', max_open: '300ms' }));
  const healthy = await many(20, () => edge.send('/open'), 16);
  world.store.faults.always(FAULTS.html502);
  world.store.stats.reset();
  const failing = await many(200, () => edge.send('/open'), 16);
  // As many failures as there were successes make half of the calls.
  assert.ok(asked() <= 80, 'the breaker stayed closed');
  world.store.faults.clear();
  await sleep(301);
  const back = await many(80, () => edge.send('/open'), 2);
  assert.deepEqual([tiers(healthy), tiers(failing), tiers(back)], [{ store: 20 }, { open: 200 }, { store: 80 }]);
  await edge.logged('store-recovered');
  assert.deepEqual(transitions(edge.log()), ['store-failing malformed', 'store-recovered']);
});
