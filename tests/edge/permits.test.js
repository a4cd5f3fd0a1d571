// Permits in whole gateways: what passes, what the store is asked, and what ends them.
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { call } from './admin/api.js';
import { many, statuses, tiers } from './support/client.js';
import { left } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();
const AT_ONCE = 96;
const GATEWAYS = 3;
const TINY_REFILL = { algorithm: 'token-bucket', limit: 1, window: '1d' };

/** Limits of 300, none of which comes back while a test runs. @type {Record<string, Record<string, unknown>>} */
const OF_300 = {
  'token-bucket': { ...TINY_REFILL, burst: 300 },
  'fixed-window': { limit: 300 },
  'sliding-window': { algorithm: 'sliding-window', limit: 300, window: '2h' },
};

/** @param {number} batch @param {Record<string, unknown>} [fields] */
const leased = (batch, fields = {}) => limit('a', { lease_batch: batch, lease_ttl: '1m', ...fields });

/** @param {import('./support/world.js').Edge} edge */
const permits = async (edge) => (await call(edge, 'GET', 'status')).json().permits;

describe('permits of three gateways', () => {
  for (const algorithm of Object.keys(OF_300)) {
    test(`one after the other, ${algorithm}: calls are requests ÷ batch, and every unit passes`, async () => {
      const text = policy([leased(20, OF_300[algorithm])]);
      const edges = await Promise.all(Array.from({ length: GATEWAYS }, () => world.gateway(text)));
      await world.resetCommands();
      const replies = await many(300, (index) => edges[index % GATEWAYS].send('/a'), 1);
      assert.deepEqual(tiers(replies), { store: 15, cache: 285 });
      assert.deepEqual(statuses(replies), { 200: 300 });
      const { mget, set, time } = await world.commands();
      assert.deepEqual([mget, set, time], [15, 15, 15], 'one MGET, SET and TIME for each batch');
      const refused = await many(30, (index) => edges[index % GATEWAYS].send('/a'), 1);
      assert.deepEqual(statuses(refused), { 429: 30 });
      assert.deepEqual(tiers(refused), { store: 3, cache: 27 });
      for (const edge of edges) {
        // The last batch was asked for by the request that was refused.
        assert.deepEqual(await permits(edge), { batches: 6, granted: 95, spent: 95, lapsed: 0, in_hand: 0 });
      }
    });
  }

  test('6,000 requests at once on a limit of 2,400: no more pass, and the store is asked about few', async () => {
    const [all, most, batch] = [6_000, 2_400, 200];
    const text = policy([leased(batch, { ...TINY_REFILL, burst: most })], undefined, { store: { remember: '10m' } });
    const edges = await Promise.all(Array.from({ length: GATEWAYS }, () => world.gateway(text)));
    // Each gateway by connections of its own, so that none is idle for so long that it is closed.
    const each = edges.map(async (edge) => {
      const agent = new Agent({ keepAlive: true });
      const replies = await many(all / GATEWAYS, () => edge.send('/a', { agent }), AT_ONCE / GATEWAYS);
      agent.destroy();
      return replies;
    });
    const replies = (await Promise.all(each)).flat();
    const { 200: passed, 429: refused } = statuses(replies);
    assert.equal(passed + refused, all);
    const counts = await Promise.all(edges.map(permits));
    const sum = (/** @type {string} */ name) => counts.reduce((total, one) => total + one[name], 0);
    // What did not pass is in hand of an isolate or has lapsed: nothing else.
    assert.equal(passed, most - sum('in_hand') - sum('lapsed'));
    assert.ok(passed <= most && passed >= most - GATEWAYS * batch, `${passed} of ${most} passed`);
    // Every decision but those of permits and of remembered refusals was a call.
    const { store, cache } = tiers(replies);
    assert.equal(world.store.stats.commands.EVALSHA, store);
    assert.equal(store + cache, all);
    // Of those that passed, all but `spent` were calls. A batch saves batch − 1 calls at most, and while one is under
    // way each of the gateway's other connections asks for itself.
    const spent = sum('spent');
    const byStore = replies.filter(({ status, headers }) => status === 200 && headers['sluicegate-tier'] === 'store');
    assert.equal(byStore.length, passed - spent);
    assert.ok(spent <= sum('batches') * (batch - 1));
    assert.ok(sum('batches') <= most / batch + 2 * GATEWAYS, `${sum('batches')} batches`);
    assert.ok(store * 2 < passed, `${store} calls for ${passed} that passed`);
  });
});

describe('permits of one gateway', () => {
  test('headers go on counting', async () => {
    const edge = await world.gateway(policy([leased(5, { limit: 100 })]));
    const replies = await many(7, () => edge.send('/a'), 1);
    assert.deepEqual(
      replies.map((reply) => [left(reply, 'a'), reply.headers['sluicegate-tier']]),
      [
        [99, 'store'],
        [98, 'cache'],
        [97, 'cache'],
        [96, 'cache'],
        [95, 'cache'],
        [94, 'store'],
        [93, 'cache'],
      ],
    );
  });

  test('a check spends them as a request does', async () => {
    const edge = await world.gateway(policy([leased(5, { limit: 100 })]));
    await edge.send('/a');
    const question = { limits: ['a'], subject: { ip: '192.0.2.1' }, cost: 2 };
    assert.deepEqual((await edge.check(question)).json().tier, 'cache');
    assert.equal(left(await edge.send('/a'), 'a'), 96);
    const look = (await edge.check({ ...question, cost: 0 })).json();
    assert.deepEqual([look.tier, look.limits[0].remaining], ['store', 96], 'a look asks, and knows what is in hand');
  });

  test('a limit beside it is asked about alone, and what it refuses spends none', async () => {
    const limits = [leased(5, { limit: 100 }), limit('b', { limit: 2 })];
    const edge = await world.gateway(policy(limits, undefined, { store: { remember: '0s' } }));
    assert.deepEqual(statuses(await many(5, () => edge.send('/a'), 1)), { 200: 2, 429: 3 });
    const { spent, in_hand } = await permits(edge);
    assert.deepEqual([spent, in_hand], [1, 3]);
  });

  test('a reset, an override and a ban through the gateway end them at once', async () => {
    const edge = await world.gateway(policy([leased(5, { limit: 100 })]));
    const ends = async (/** @type {() => Promise<unknown>} */ done, /** @type {number} */ status) => {
      await many(2, () => edge.send('/a'), 1);
      await done();
      const after = await edge.send('/a');
      assert.deepEqual([after.status, after.headers['sluicegate-tier']], [status, 'store']);
    };
    await ends(() => call(edge, 'DELETE', 'limits/a/192.0.2.1'), 200);
    await ends(() => call(edge, 'PUT', 'overrides/a/192.0.2.1', { limit: 50 }), 200);
    await ends(() => call(edge, 'PUT', 'overrides/a/192.0.2.1', { limit: 0 }), 429);
  });

  test('a ban made elsewhere is seen when they are spent', async () => {
    const edge = await world.gateway(policy([leased(5, { limit: 100 })]));
    await edge.send('/a');
    const other = await world.gateway(policy([leased(5, { limit: 100 })]));
    await call(other, 'PUT', 'overrides/a/192.0.2.1', { limit: 0 });
    const replies = await many(5, () => edge.send('/a'), 1);
    assert.deepEqual(statuses(replies), { 200: 4, 429: 1 });
  });

  for (const [how, after] of /** @type {[string, Record<number, number>][]} */ ([
    ['open', { 200: 20 }],
    ['closed', { 503: 20 }],
    ['degraded', { 200: 10, 429: 10 }],
  ])) {
    test(`the store is down: they are spent, then ${how}`, async () => {
      const limits = [leased(5, { limit: 100, on_store_error: how })];
      const edge = await world.gateway(policy(limits, [route('/a', ['a'])], { degraded: { share: 0.1 } }));
      await edge.send('/a');
      world.store.faults.always(FAULTS.loading);
      const spent = await many(4, () => edge.send('/a'), 1);
      assert.deepEqual([statuses(spent), tiers(spent)], [{ 200: 4 }, { cache: 4 }]);
      const then = await many(20, () => edge.send('/a'), 1);
      assert.deepEqual([statuses(then), tiers(then)], [after, { [how]: 20 }]);
      world.store.faults.clear();
      assert.equal((await edge.send('/a')).headers['sluicegate-tier'], 'store');
    });
  }
});
