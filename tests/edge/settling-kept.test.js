// Settlements when something goes wrong, or changes, in between: each counts once, and what is lost leaves the reservation.
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { many, statuses } from './support/client.js';
import { look } from './support/failing.js';
import { problem } from './support/fields.js';
import { useNamespace } from './support/namespace.js';
import { DAY, limit, policy } from './support/policy.js';
import { useSettling } from './support/settling.js';
import { until, useWorld } from './support/world.js';

const world = useWorld();
const namespace = useNamespace();
const { settling, isSettlement, charging, counts, untilSettled, used, charges, told } = useSettling(world);

describe('once', () => {
  test('a reply that was lost after the script ran', async () => {
    charging();
    const edge = await world.gateway(settling());
    world.store.faults.push({ ...FAULTS.resetAfter, match: isSettlement });
    await edge.send('/a?used=30');
    await untilSettled(edge, 1);
    const { made, given_back, repeated, lost } = await counts(edge);
    assert.deepEqual([await used(edge), made, given_back, repeated, lost], [30, 1, 70, 0, 0]);
  });

  test('a repeat under an idempotency key, before and after the first has settled', async () => {
    charging();
    const edge = await world.gateway(settling({ idempotency: 'header:idempotency-key' }));
    const keyed = { headers: { 'idempotency-key': 'k' } };
    await edge.send('/a?used=30', keyed);
    await edge.send('/a?used=30', keyed);
    await untilSettled(edge, 1);
    await untilSettled(edge, 1, 'repeated');
    assert.equal(await used(edge), 30);
    assert.equal(new Set(charges()).size, 1, 'one charge');
  });

  test('a reservation whose reply was lost is given back where it was made', async () => {
    charging();
    const edge = await world.gateway(settling({}, { exactly_once: true }));
    await edge.send('/a?used=100');
    await untilSettled(edge, 1);
    world.store.faults.push(FAULTS.resetAfter);
    await edge.send('/a?used=0');
    await untilSettled(edge, 2);
    assert.equal(await used(edge), 100);
  });
});

describe('a store that fails', () => {
  const down = () => world.store.faults.always({ ...FAULTS.loading, match: isSettlement });

  test('leaves the reservation, and the API may tell it again', async () => {
    charging();
    const edge = await world.gateway(settling());
    down();
    await edge.send('/a?used=0');
    await untilSettled(edge, 1, 'lost');
    const [charge] = charges();
    const unanswered = await told(edge, charge, 0);
    assert.ok(Number(problem(unanswered, 503) && unanswered.headers['retry-after']) >= 1);
    world.store.faults.clear();
    assert.equal(await used(edge), 100);
    assert.equal((await told(edge, charge, 0)).json().settled, true);
    assert.equal(await used(edge), 0);
  });

  test('what the isolate decided at its share, it settles in its own table', async () => {
    charging();
    const edge = await world.gateway(settling({ on_store_error: 'degraded', limit: 10_000 }));
    world.store.faults.always(FAULTS.loading);
    // A share of 1000: ten at the reservation, more where they cost less.
    const replies = [];
    for (let index = 1; index <= 19; index += 1) {
      replies.push(await edge.send('/a?used=50'));
      await untilSettled(edge, index);
    }
    assert.deepEqual(statuses(replies), { 200: 19 });
    assert.equal((await edge.send('/a?used=50')).status, 429, '50 are left and 100 are reserved');
    assert.equal((await told(edge, charges()[0], 0)).json().reason, 'already-settled');
    const other = await world.gateway(settling({ on_store_error: 'degraded', limit: 10_000 }));
    assert.equal((await told(other, charges()[0], 0)).json().reason, 'elsewhere');
    assert.deepEqual(await world.keys(), []);
  });

  test('what passed uncounted has nothing to settle', async () => {
    charging();
    const edge = await world.gateway(settling({ on_store_error: 'open' }));
    world.store.faults.always(FAULTS.loading);
    assert.equal((await edge.send('/a?used=50')).status, 200);
    assert.deepEqual(charges(), ['undefined']);
  });
});

test('without a store the isolate settles exactly', async () => {
  charging();
  const edge = await world.gateway(settling(), { UPSTASH_REDIS_REST_URL: undefined });
  await edge.send('/a?used=30');
  await edge.send('/a?used=150');
  await untilSettled(edge, 2);
  assert.equal(await used(edge), 180);
  assert.equal((await told(edge, charges()[0], 0)).json().settled, false);
});

test('a refusal is not remembered: units may come back at any moment', async () => {
  const edge = await world.gateway(settling({ limit: 100 }));
  await edge.send('/a');
  assert.equal((await edge.send('/a')).status, 429);
  assert.equal((await told(edge, charges()[0], 0)).json().settled, true);
  assert.equal((await edge.send('/a')).status, 200);
});

test('a policy that changes in between', async () => {
  const gateway = (/** @type {unknown} */ text) =>
    world.gateway(text, { POLICY_KV_SECONDS: '1' }, {}, { namespaces: { POLICY_KV: namespace.address } });
  const edge = await gateway(settling());
  const put = async (/** @type {unknown} */ text) => {
    const before = edge.log().length;
    namespace.put(text);
    await until(async () => {
      await edge.send('/.sluicegate/health');
      return edge
        .log()
        .slice(before)
        .some(({ event }) => event === 'policy-reloaded');
    }, 'the policy');
  };
  for (let times = 0; times < 3; times += 1) await edge.send('/a');
  const [first, second, third] = charges();
  await put(settling({ limit: 5000 }));
  assert.deepEqual((await told(edge, first, 0)).json().limits, [{ name: 'tokens', units: -100, remaining: 4800 }]);
  await put(settling({ window: DAY.text === '24h' ? '17h' : '24h' }));
  assert.equal((await told(edge, second, 0)).json().reason, 'limit-changed');
  await put(policy([limit('other')]));
  assert.equal((await told(edge, third, 0)).json().reason, 'limit-changed');
  await put(settling({ limit: 5000 }));
  assert.equal(await used(edge), 200);
  assert.equal((await told(edge, third, 40)).json().settled, true, 'it is back');
  assert.equal(await used(edge), 140);
});

test('many settled requests end at the exact sum, whatever becomes of replies', async () => {
  // The whole proof is SLUICEGATE_SETTLED=10000.
  const count = Number(process.env.SLUICEGATE_SETTLED ?? 600);
  charging();
  const fields = {
    limit: 1_000_000_000,
    idempotency: 'header:idempotency-key',
    settle: { header: 'x-usage-tokens', max: 100_000, within: '1d' },
  };
  const store = { max_in_flight: 1000 };
  const edges = await Promise.all([world.gateway(settling(fields, store)), world.gateway(settling(fields, store))]);
  // No connection is kept that the other side might just close.
  const agent = new Agent({ keepAlive: false });
  let calls = 0;
  const sometimes = (/** @type {string[]} */ command) => {
    if (!isSettlement(command)) return false;
    calls += 1;
    return calls % 37 === 0;
  };
  world.store.faults.always({ ...FAULTS.resetAfter, match: sometimes });
  /** Costs below, at and above the reservation. @param {number} index */
  const cost = (index) => [0, 99, 100, 101, 5000, (index * 7919) % 300][index % 6];
  // Who is told that the store is away asks again under the same key, and is charged and settled once.
  const one = async (/** @type {number} */ index) => {
    const sent = { agent, headers: { 'idempotency-key': `k-${index}` } };
    for (;;) {
      const reply = await edges[index % 2].send(`/a?used=${cost(index)}`, sent);
      if (reply.status !== 503) return reply;
    }
  };
  assert.deepEqual(statuses(await many(count, one, 32)), { 200: count });
  const sums = async (/** @type {string} */ what) =>
    (await Promise.all(edges.map(counts))).reduce((sum, of) => sum + of[what], 0);
  await until(
    async () => (await sums('made')) + (await sums('lost')) === count,
    'every charge to be dealt with',
    60_000,
  );
  // What met the fault twice is told by whoever holds the token, as often as it likes.
  world.store.faults.clear();
  if ((await sums('lost')) > 0) {
    const seen = world.origin.seen.map(({ headers, path }) => [String(headers['sluicegate-charge']), path]);
    const again = (/** @type {string} */ path) => Number(new URL(path, 'http://o').searchParams.get('used'));
    await many(seen.length, (index) => told(edges[0], seen[index][0], again(seen[index][1])), 32);
  }
  const exact = Array.from({ length: count }, (_, index) => cost(index)).reduce((sum, units) => sum + units, 0);
  assert.equal(await used(edges[0]), exact);
  assert.ok(count < 100 || calls > count, 'replies were lost');
  assert.equal(await look(edges[0], 'tokens', '192.0.2.1'), 1_000_000_000 - exact);
});
