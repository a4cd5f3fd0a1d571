// Three isolates, one Redis: the limit holds for all of them together, to the last request.
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { describe, test } from 'node:test';
import { many, statuses, tiers } from './support/client.js';
import { limit, policy } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();
const AT_ONCE = 96;

/**
 * Requests spread over three gateways of one policy, all of one client.
 *
 * @param {number} count
 * @param {Record<string, unknown>} fields of the one limit
 * @param {string} remember
 */
async function overThree(count, fields, remember) {
  const text = policy([limit('a', fields)], undefined, { store: { remember } });
  const edges = await Promise.all([1, 2, 3].map(() => world.gateway(text)));
  const agents = edges.map(() => new Agent({ keepAlive: true, maxSockets: AT_ONCE / edges.length }));
  const one = (/** @type {number} */ index) => edges[index % 3].send('/a', { agent: agents[index % 3] });
  const replies = await many(count, one, AT_ONCE);
  for (const agent of agents) agent.destroy();
  return replies;
}

const TINY_REFILL = { algorithm: 'token-bucket', limit: 1, window: '1d' };

describe('three isolates', () => {
  test('5,000 requests on a bucket of 700: 700 pass, and every decision is the store’s', async () => {
    const replies = await overThree(5000, { ...TINY_REFILL, burst: 700 }, '0s');
    assert.deepEqual(statuses(replies), { 200: 700, 429: 4300 });
    assert.deepEqual(tiers(replies), { store: 5000 });
    assert.equal(world.origin.seen.length, 700);
  });

  test('5,000 requests on a bucket of 700 whose refusals are remembered: 700 pass', async () => {
    const replies = await overThree(5000, { ...TINY_REFILL, burst: 700 }, '10m');
    assert.deepEqual(statuses(replies), { 200: 700, 429: 4300 });
    const { store, cache, ...rest } = tiers(replies);
    assert.deepEqual([rest, store + cache], [{}, 5000]);
    assert.ok(cache > 0, 'no refusal was answered from memory');
    const { EVALSHA = 0, EVAL = 0, ...others } = world.store.stats.commands;
    assert.deepEqual(others, {});
    // A gateway's first calls may find the script unknown, each then sends its text.
    assert.equal(EVALSHA, store);
    assert.ok(EVAL <= AT_ONCE, `${EVAL} calls sent the script's text`);
  });

  for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-log']) {
    for (const remember of ['0s', '10m']) {
      test(`800 requests on a ${algorithm} of 150, remember ${remember}: 150 pass`, async () => {
        const window = algorithm === 'fixed-window' ? {} : { window: '2h' };
        const replies = await overThree(800, { algorithm, limit: 150, ...window }, remember);
        assert.deepEqual(statuses(replies), { 200: 150, 429: 650 });
      });
    }
  }

  test('a refusal remembered by one isolate is not known to another', async () => {
    const text = policy([limit('a')]);
    const [one, other] = await Promise.all([world.gateway(text), world.gateway(text)]);
    await many(4, () => one.send('/a'));
    assert.equal((await one.send('/a')).headers['sluicegate-tier'], 'cache');
    assert.equal((await other.send('/a')).headers['sluicegate-tier'], 'store');
  });
});
