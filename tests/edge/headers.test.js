// The dialects of rate limit headers, and the tier.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { left, rateLimit } from './support/fields.js';
import { DAY, limit, policy } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

/** @param {string[]} headers @param {boolean} [tier_header] */
const speaking = (headers, tier_header = false) =>
  policy([limit('wide', { limit: 9 }), limit('tight', { limit: 2 })], undefined, { gateway: { headers, tier_header } });

/** Seconds until the window ends, as it was before and is after. @param {() => Promise<any>} ask */
async function timed(ask) {
  const end = Math.ceil(Date.now() / DAY.ms) * DAY.ms;
  const before = Date.now();
  const reply = await ask();
  return { reply, end, least: Math.ceil((end - Date.now()) / 1000), most: Math.ceil((end - before) / 1000) };
}

const ALL = [
  ...['ratelimit', 'ratelimit-policy', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
  ...['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'sluicegate-tier'],
];

/** Which of them an answer has. @param {import('./support/client.js').Reply} reply */
const present = (reply) => ALL.filter((name) => reply.headers[name] !== undefined);

test('draft-10 is the default, and no tier is said unless asked for', async () => {
  const { gateway, ...rest } = policy([limit('a')]);
  const edge = await world.gateway({ ...rest, gateway: { origin: 'http://origin.invalid' } });
  assert.deepEqual(present(await edge.send('/a')), ['ratelimit', 'ratelimit-policy']);
});

test('[] sends none, refused or not', async () => {
  const edge = await world.gateway(speaking([]));
  for (const status of [200, 200, 429]) {
    const reply = await edge.send('/a');
    assert.deepEqual([reply.status, present(reply)], [status, []]);
    assert.equal(reply.headers['retry-after'] !== undefined, status === 429);
  }
});

test('draft-03: of the tightest limit, seconds from now', async () => {
  const edge = await world.gateway(speaking(['draft-03']));
  const { reply, least, most } = await timed(() => edge.send('/a'));
  assert.deepEqual(present(reply), ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']);
  assert.deepEqual([reply.headers['ratelimit-limit'], reply.headers['ratelimit-remaining']], ['2', '1']);
  const reset = Number(reply.headers['ratelimit-reset']);
  assert.ok(least <= reset && reset <= most, `${reset} is not within ${least} to ${most}`);
});

test('x-ratelimit: of the tightest limit, seconds since 1970', async () => {
  // FIELD-REPORTS B55.
  const edge = await world.gateway(speaking(['x-ratelimit']));
  const { reply, end } = await timed(() => edge.send('/a'));
  assert.deepEqual(present(reply), ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']);
  assert.deepEqual([reply.headers['x-ratelimit-limit'], reply.headers['x-ratelimit-remaining']], ['2', '1']);
  assert.equal(reply.headers['x-ratelimit-reset'], String(end / 1000));
});

test('all at once say the same, in a refusal too', async () => {
  const edge = await world.gateway(speaking(['draft-10', 'draft-03', 'x-ratelimit'], true));
  await edge.send('/a');
  await edge.send('/a');
  const { reply, end, least, most } = await timed(() => edge.send('/a'));
  assert.equal(reply.status, 429);
  assert.deepEqual(present(reply), ALL);
  const seconds = Number(reply.headers['retry-after']);
  assert.ok(least <= seconds && seconds <= most);
  assert.equal(reply.headers['ratelimit-reset'], String(seconds));
  assert.equal(reply.headers['x-ratelimit-reset'], String(end / 1000));
  assert.equal(rateLimit(reply).tight.t, seconds);
  for (const name of ['ratelimit-remaining', 'x-ratelimit-remaining']) assert.equal(reply.headers[name], '0');
});

test('remaining goes down to 0 and no further', async () => {
  // FIELD-REPORTS B24.
  const edge = await world.gateway(policy([limit('a')]));
  const seen = [];
  for (let sent = 0; sent < 6; sent += 1) seen.push(left(await edge.send('/a'), 'a'));
  assert.deepEqual(seen, [2, 1, 0, 0, 0, 0]);
});

describe('the tier', () => {
  test('store, cache, isolate, open, closed, degraded', async () => {
    const down = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' };
    /** @param {Record<string, unknown>} fields @param {Record<string, unknown>} [vars] @param {number} [before] */
    const tier = async (fields, vars, before = 0) => {
      const edge = await world.gateway(policy([limit('a', fields)]), vars);
      for (let sent = 0; sent < before; sent += 1) await edge.send('/a', { ip: '192.0.2.77' });
      return (await edge.send('/a', { ip: '192.0.2.77' })).headers['sluicegate-tier'];
    };
    assert.equal(await tier({}), 'store');
    assert.equal(await tier({}, {}, 5), 'cache');
    assert.equal(await tier({}, { UPSTASH_REDIS_REST_URL: undefined }), 'isolate');
    for (const on_store_error of ['open', 'closed', 'degraded']) {
      assert.equal(await tier({ on_store_error }, down), on_store_error);
    }
  });

  test('is said on what is answered for an origin that is down', async () => {
    const edge = await world.gateway(policy([limit('a')]), { ORIGIN: 'http://127.0.0.1:1' });
    assert.equal((await edge.send('/a')).headers['sluicegate-tier'], 'store');
  });
});

test('every limit that applies is named, also where the store was not asked or did not answer', async () => {
  const limits = [limit('wide', { limit: 9, on_store_error: 'open' }), limit('tight', { limit: 1 })];
  const edge = await world.gateway(policy(limits));
  await edge.send('/a');
  await edge.send('/a');
  const named = (/** @type {import('./support/client.js').Reply} */ reply) =>
    [...String(reply.headers['ratelimit-policy']).matchAll(/"([^"]+)"/g)].map(([, name]) => name).toSorted();
  const remembered = await edge.send('/a');
  assert.equal(remembered.headers['sluicegate-tier'], 'cache');
  assert.deepEqual(named(remembered), ['tight', 'wide']);
  world.store.faults.always(FAULTS.resetBefore);
  const closed = await edge.send('/a', { ip: '192.0.2.77' });
  assert.equal(closed.status, 503);
  assert.deepEqual(named(closed), ['tight', 'wide']);
});
