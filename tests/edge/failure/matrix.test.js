// The fault matrix: whatever the store does, times three policies. What the client gets, who decided, how often the
// store was called, what the log says, and what was charged.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, tiers } from '../support/client.js';
import { during, look, nextIp } from '../support/failing.js';
import { left, problem, QUOTA_EXCEEDED, REDUCED_CAPACITY } from '../support/fields.js';
import { CALM_BREAKER, limit, policy, route } from '../support/policy.js';
import { until, useWorld } from '../support/world.js';
import { ANSWERS, SLOW, TEXTS } from './rows.js';

/** @typedef {import('./rows.js').Row} Row */
/** @typedef {import('../support/world.js').Edge} Edge */

const world = useWorld({ scriptKnown: true });
const KINDS = /** @type {const} */ (['open', 'closed', 'degraded']);

/** For tests that would wait for ever if a deadline did not hold. */
const HANGS = { timeout: 30_000 };

/** Each policy under its own path; every failed call may be made once more as far as its class allows it. */
const byFailure = (store = {}) =>
  policy(
    KINDS.map((kind) => limit(kind, { limit: 10, on_store_error: kind })),
    KINDS.map((kind) => route(`/${kind}`, [kind])),
    { store: { remember: '0s', retry: { budget: 1, backoff: '0s' }, ...store } },
  );

const failing = (/** @type {Row} */ { reason, sign }) => ({ event: 'store-failing', reason, sign });

const refused = (/** @type {typeof KINDS[number]} */ kind, /** @type {object} */ fields) => {
  return { event: 'refused', route: `_${kind}`, limit: kind, cost: 1, tier: kind, ...fields };
};

/** Lines without whom they are about. @param {Record<string, unknown>[]} log */
const anonymous = (log) => log.map(({ subject, ...line }) => line);

/**
 * A row under one policy, asked once; the degraded limit, whose share is 1, is asked once more.
 *
 * @param {Edge} edge
 * @param {Row} row
 * @param {typeof KINDS[number]} kind
 */
async function holds(edge, row, kind) {
  const what = `${row.name}, ${kind}`;
  const ip = nextIp();
  world.store.faults.always(row.fault);
  const { answer, calls, writes, log } = await during(world, edge, () => edge.send(`/${kind}`, { ip }));
  assert.equal(answer.headers['sluicegate-tier'], kind, what);
  assert.equal(calls, row.calls, `${what}: calls to the store`);
  assert.equal(writes, row.charged, `${what}: charges`);
  assert.equal(await look(edge, kind, ip), 10 - row.charged, `${what}: what is left`);
  /** @type {object[]} */
  const lines = [failing(row)];
  if (kind === 'closed') {
    const document = problem(answer, 503);
    assert.deepEqual([document.type, document['violated-policies']], [REDUCED_CAPACITY, ['closed']], what);
    assert.deepEqual([answer.headers['retry-after'], document.retry_after], ['1', 1], what);
    lines.push(refused(kind, { reason: 'store-unavailable', retry_after: 1 }));
  } else {
    assert.deepEqual([answer.status, answer.text, answer.headers['retry-after']], [200, 'origin', undefined], what);
  }
  assert.deepEqual(anonymous(log), lines, what);
}

describe('each answer of the store, each policy', () => {
  test('what is answered at once', async () => {
    const edge = await world.gateway(byFailure());
    for (const row of ANSWERS) for (const kind of KINDS) await holds(edge, row, kind);
  });

  test('what outlasts the deadline', HANGS, async () => {
    const edge = await world.gateway(byFailure({ timeout: '150ms' }));
    for (const row of SLOW) for (const kind of KINDS) await holds(edge, row, kind);
  });

  test('the isolate’s share is used up: 429, reduced capacity, when to come back', async () => {
    const edge = await world.gateway(byFailure());
    for (const row of ANSWERS.filter(({ name }) => /^(LOADING|WRONGPASS|502 HTML|reset before)/.test(name))) {
      const ip = nextIp();
      world.store.faults.always(row.fault);
      const { answer, log } = await during(world, edge, async () => {
        return [await edge.send('/degraded', { ip }), await edge.send('/degraded', { ip })];
      });
      const [first, second] = answer;
      assert.deepEqual([first.status, second.status, tiers(answer)], [200, 429, { degraded: 2 }], row.name);
      const document = problem(second, 429);
      assert.equal(document.type, REDUCED_CAPACITY);
      assert.equal(second.headers['retry-after'], String(document.retry_after));
      assert.ok(document.retry_after > 1, 'the window ends later than in a second');
      const reason = { reason: 'quota-exceeded', retry_after: document.retry_after };
      assert.deepEqual(anonymous(log), [failing(row), refused('degraded', reason)]);
    }
  });
});

test('one text, any status, in JSON or bare: the same class and the same sign', async () => {
  const edge = await world.gateway(byFailure());
  for (const row of TEXTS) {
    const inJson = [200, 401, 429, 500].map((status) => FAULTS.error(row.name, status));
    const bare = [400, 503].map((status) => FAULTS.reply({ status, body: row.name }));
    for (const fault of [...inJson, ...bare]) {
      world.store.faults.always(fault);
      const { answer, calls, log } = await during(world, edge, () => edge.send('/open', { ip: nextIp() }));
      assert.deepEqual([answer.status, calls, log], [200, row.calls, [failing(row)]], `${fault.status} ${fault.body}`);
    }
  }
  for (const status of [200, 400, 500, 502, 530]) {
    world.store.faults.always(FAULTS.reply({ status, body: 'error code: 1016' }));
    const { answer, log } = await during(world, edge, () => edge.send('/open', { ip: nextIp() }));
    const line = { event: 'store-failing', reason: 'unreachable', sign: `status ${status}` };
    assert.deepEqual([answer.status, log], [200, [line]]);
  }
});

describe('a provider that asks for fewer calls', () => {
  for (const kind of KINDS) {
    test(`429 with Retry-After, ${kind}: one call, then silence for as long`, async () => {
      const edge = await world.gateway(byFailure({ breaker: { ...CALM_BREAKER, long_open: '10m' } }));
      world.store.faults.always(FAULTS.tooManyRequests(70));
      const ip = nextIp();
      const replies = await many(6, () => edge.send(`/${kind}`, { ip }), 1);
      assert.equal(world.store.stats.requests, 1);
      assert.deepEqual(tiers(replies), { [kind]: 6 });
      for (const [index, reply] of replies.entries()) {
        if (kind === 'open') assert.equal(reply.status, 200);
        if (kind === 'closed') {
          // What the provider asked for, and up to half of it more so that isolates do not come back together.
          const { retry_after } = problem(reply, 503);
          assert.ok(retry_after > 60 && retry_after <= 105, `after ${retry_after} s`);
          assert.equal(reply.headers['retry-after'], String(retry_after));
        }
        if (kind === 'degraded') assert.equal(reply.status, index === 0 ? 200 : 429);
      }
      world.store.faults.clear();
      assert.equal(await world.client.dbSize(), 0, 'something was charged');
      const lines = (await edge.logged('store-failing')).map(({ reason, sign }) => [reason, sign]);
      assert.deepEqual(lines, [['throttled', 'status 429']]);
    });
  }

  for (const after of ['Wed, 21 Oct 2026 07:28:00 GMT', '-5', '1.5', '99999999999999', '']) {
    test(`a Retry-After of ${JSON.stringify(after)} is as good as none`, async () => {
      const edge = await world.gateway(byFailure());
      world.store.faults.always(FAULTS.tooManyRequests(after));
      const { answer, calls, log } = await during(world, edge, () => edge.send('/closed'));
      assert.deepEqual([answer.status, answer.headers['retry-after'], calls], [503, '1', 1]);
      assert.deepEqual([log[0].reason, log.length], ['throttled', 2]);
    });
  }
});

describe('one more call', () => {
  test('what was not run is repeated once and passes; what may have run is not', async () => {
    const edge = await world.gateway(byFailure());
    for (const row of ANSWERS.filter(({ name }) => !name.startsWith('NOSCRIPT'))) {
      const ip = nextIp();
      world.store.faults.push(row.fault);
      const { answer, calls, writes } = await during(world, edge, () => edge.send('/closed', { ip }));
      const again = row.calls === 2;
      assert.deepEqual([answer.status, calls], again ? [200, 2] : [503, 1], row.name);
      assert.deepEqual(
        [writes, await look(edge, 'closed', ip)],
        again ? [1, 9] : [row.charged, 10 - row.charged],
        row.name,
      );
    }
  });

  test('with a charge id what may have run is repeated too, charged once, and answered as the first', async () => {
    const edge = await world.gateway(byFailure({ exactly_once: true }));
    for (const row of ANSWERS.filter(({ name }) => !name.startsWith('NOSCRIPT'))) {
      const ip = nextIp();
      world.store.faults.push(row.fault);
      const { answer, calls, writes } = await during(world, edge, () => edge.send('/closed', { ip }));
      const again = row.calls === 2 || row.repeatable;
      assert.deepEqual([answer.status, calls], again ? [200, 2] : [503, 1], row.name);
      if (again) assert.equal(left(answer, 'closed'), 9, row.name);
      // The state and the charge id.
      assert.equal(writes, again ? 2 : 0, row.name);
      assert.equal(await look(edge, 'closed', ip), again ? 9 : 10, row.name);
    }
  });

  test('with a charge id and a fault that stays: two calls, at most one charge', async () => {
    const edge = await world.gateway(byFailure({ exactly_once: true }));
    for (const row of ANSWERS.filter(({ repeatable }) => repeatable)) {
      const ip = nextIp();
      world.store.faults.always(row.fault);
      const { answer, calls, log } = await during(world, edge, () => edge.send('/open', { ip }));
      assert.deepEqual([answer.status, answer.headers['sluicegate-tier'], calls], [200, 'open', 2], row.name);
      assert.equal(await look(edge, 'open', ip), 10 - row.charged, row.name);
      assert.deepEqual(log, [failing(row)], row.name);
    }
  });

  test('not beyond the deadline, charge id or not', HANGS, async () => {
    const edge = await world.gateway(byFailure({ timeout: '150ms', exactly_once: true }));
    for (const row of SLOW) {
      const ip = nextIp();
      world.store.faults.push(row.fault);
      const { answer, calls } = await during(world, edge, () => edge.send('/open', { ip }));
      assert.deepEqual([answer.headers['sluicegate-tier'], calls], ['open', 1], row.name);
      assert.equal(await look(edge, 'open', ip), 10 - row.charged, row.name);
    }
  });

  test('out of a budget of one in ten calls, and one to begin with', async () => {
    const edge = await world.gateway(byFailure({ retry: { backoff: '0s' } }));
    world.store.faults.always(FAULTS.busy);
    await many(100, () => edge.send('/open', { ip: '192.0.2.1' }), 8);
    const calls = world.store.stats.requests;
    assert.ok(calls >= 110 && calls <= 111, `${calls} calls`);
  });

  test('never without a budget', async () => {
    const edge = await world.gateway(byFailure({ retry: { budget: 0 } }));
    world.store.faults.always(FAULTS.busy);
    await many(20, () => edge.send('/open'));
    assert.equal(world.store.stats.requests, 20);
  });

  test('after a random wait that is part of the deadline', async () => {
    const edge = await world.gateway(byFailure({ timeout: '150ms', retry: { budget: 1, backoff: '10s' } }));
    world.store.faults.always(FAULTS.busy);
    const replies = await many(20, () => edge.send('/open'));
    assert.deepEqual(tiers(replies), { open: 20 });
    assert.ok(world.store.stats.requests < 30, 'waits longer than the deadline were not given up');
  });
});

test('a script that runs after the deadline is charged, and nobody waits for it', async () => {
  const edge = await world.gateway(byFailure({ timeout: '100ms' }));
  world.store.faults.push(FAULTS.delay(300));
  const reply = await edge.send('/degraded');
  assert.deepEqual([reply.status, reply.headers['sluicegate-tier']], [200, 'degraded']);
  await until(async () => (await look(edge, 'degraded', '192.0.2.1')) === 9, 'the late charge');
});

test('a refusal of the store’s is no failure: 429, whatever the policy', async () => {
  const edge = await world.gateway(byFailure());
  for (const kind of KINDS) {
    const replies = await many(11, () => edge.send(`/${kind}`), 1);
    assert.deepEqual(tiers(replies), { store: 11 });
    assert.equal(problem(replies[10], 429).type, QUOTA_EXCEEDED);
  }
  assert.deepEqual(
    edge.log().filter(({ event }) => event !== 'refused'),
    [],
  );
});
