// Requests over a limit that delays reach the origin at their moments: spaced, in order, none early by the origin's clock.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses } from '../support/client.js';
import { left, rateLimit } from '../support/fields.js';
import { arrivals, assertSpaced, ipOf, moments, overhear, waiting } from '../support/moments.js';
import { useWorld } from '../support/world.js';

const world = useWorld();

/**
 * Sends so many at once and sees when they arrive.
 *
 * @param {import('../support/world.js').Edge[]} edges in turn
 * @param {number} count
 */
async function rush(edges, count) {
  const arrived = arrivals(world, '/x');
  // From here on each call finds the script.
  for (const edge of edges) await edge.check({ limits: ['rate', 'who'], subject: { ip: '10.9.9.9' }, cost: 0 });
  const monitor = await overhear(world);
  const replies = await many(count, (index) =>
    edges[index % edges.length].send('/x', { ip: ipOf(index), headers: { 'x-index': String(index) } }),
  );
  await monitor.heard(count);
  monitor.close();
  return { replies, arrived, calls: monitor.calls };
}

describe('a hundred at once, ten of them in 400 ms', () => {
  test('arrive spaced, in the order in which the store was asked', async () => {
    const edge = await world.gateway(waiting());
    const { replies, arrived, calls } = await rush([edge], 100);
    assert.deepEqual(statuses(replies), { 200: 100 });
    const due = moments(calls, 40);
    assertSpaced(arrived, due);
    const { ip, moment } = due[99];
    // The last one has waited for 99 others.
    assert.ok(moment - calls[0].clock >= 99 * 40, `${ip} ${moment}`);
    const { delayed } = (await edge.send('/.sluicegate/v1/status', { headers: admin })).json();
    assert.deepEqual([delayed.waiting, delayed.full], [0, 0]);
  });

  test('over two gateways together', async () => {
    const edges = await Promise.all([world.gateway(waiting()), world.gateway(waiting())]);
    const { replies, arrived, calls } = await rush(edges, 50);
    assert.deepEqual(statuses(replies), { 200: 50 });
    assertSpaced(arrived, moments(calls, 40));
  });

  test('by the store’s clock', async () => {
    const edge = await world.gateway(waiting({}, { store: { clock: 'store' } }));
    const { replies, arrived, calls } = await rush([edge], 40);
    assert.deepEqual(statuses(replies), { 200: 40 });
    assertSpaced(arrived, moments(calls, 40));
  });

  test('with no store at all', async () => {
    const edge = await world.gateway(waiting(), { UPSTASH_REDIS_REST_URL: undefined });
    const arrived = arrivals(world, '/x');
    const began = Date.now();
    const replies = await many(40, (index) => edge.send('/x', { ip: ipOf(index) }));
    assert.deepEqual(statuses(replies), { 200: 40 });
    assert.equal(replies[0].headers['sluicegate-tier'], 'isolate');
    const times = arrived.map(({ at }) => at).sort((a, b) => a - b);
    // The isolate's clock may be a few milliseconds behind this one's.
    for (const [index, at] of times.entries()) assert.ok(at >= began + index * 40 - 10, `${index}: ${at - began} ms`);
  });

  test('while the store is down, at the isolate’s share', async () => {
    const fields = { on_store_error: 'degraded' };
    const policy = waiting(fields, { degraded: { share: 0.5 } });
    policy.limits = [/** @type {any[]} */ (policy.limits)[0]];
    policy.routes = [{ name: 'x', path: '/x', limits: ['rate'] }];
    const edge = await world.gateway(policy, { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' });
    const arrived = arrivals(world, '/x');
    const began = Date.now();
    const replies = await many(20, (index) => edge.send('/x', { ip: ipOf(index) }));
    assert.deepEqual(statuses(replies), { 200: 20 });
    assert.equal(replies[0].headers['sluicegate-tier'], 'degraded');
    const times = arrived.map(({ at }) => at).sort((a, b) => a - b);
    for (const [index, at] of times.entries()) assert.ok(at >= began + index * 80 - 10, `${index}: ${at - began} ms`);
  });
});

const admin = { authorization: 'Bearer admin-token-for-tests' };

test('the fields of an answer speak of the moment at which its request went on', async () => {
  const edge = await world.gateway(waiting({ limit: 2, window: '1s' }));
  const [first, second] = [await edge.send('/x'), await edge.send('/x')];
  assert.deepEqual([left(first, 'rate'), left(second, 'rate')], [0, 0]);
  // It waited for 500 ms, and half a second later nothing is used.
  assert.equal(rateLimit(second).rate.t, 1);
});
