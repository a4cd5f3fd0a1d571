// Slots while the store fails, by each policy; a store that was flushed; leases that several gateways take.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses, tiers } from '../support/client.js';
import { left, problem, REDUCED_CAPACITY } from '../support/fields.js';
import { CALM_BREAKER, limit, policy, route } from '../support/policy.js';
import { concurrency, held, holders, open, storeClock, untilHeld } from '../support/slots.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();
const routes = [route('/a', ['a']), route('/b', ['a'])];

/** @param {Record<string, unknown>} fields @param {Record<string, Record<string, unknown>>} [sections] */
const by = (fields, sections) => policy([concurrency('a', fields)], routes, sections);

describe('while the store fails', () => {
  test('open: passes and holds nothing', async () => {
    const edge = await world.gateway(by({ on_store_error: 'open' }));
    world.store.faults.always(FAULTS.resetBefore);
    const streams = held(world, '/a');
    const [first, second] = [await open(edge, '/a'), await open(edge, '/a')];
    assert.equal(second.response.headers['sluicegate-tier'], 'open');
    const calls = world.store.stats.requests;
    for (const stream of streams) stream.end();
    await Promise.all([first.whole(), second.whole()]);
    await edge.send('/b');
    assert.equal(world.store.stats.requests, calls + 1, 'nothing was to be freed');
  });

  test('closed: 503', async () => {
    const edge = await world.gateway(by({ on_store_error: 'closed' }));
    world.store.faults.always(FAULTS.resetBefore);
    const reply = await edge.send('/a');
    assert.equal(problem(reply, 503).type, REDUCED_CAPACITY);
    assert.ok(Number(reply.headers['retry-after']) >= 1);
  });

  test('degraded: at the share, free at the end, and no call for it', async () => {
    const edge = await world.gateway(by({ limit: 20, on_store_error: 'degraded' }));
    world.store.faults.always(FAULTS.resetBefore);
    const streams = held(world, '/a');
    const opened = [await open(edge, '/a'), await open(edge, '/a')];
    assert.equal(opened[1].response.headers['sluicegate-tier'], 'degraded');
    const refused = await edge.send('/b');
    const document = problem(refused, 429);
    assert.equal(document.type, REDUCED_CAPACITY);
    assert.match(document.detail, /^all slots of a are taken at reduced capacity \(2 at once\); try again in \d+ s\.$/);
    streams[0].end();
    await opened[0].whole();
    await until(async () => (await edge.send('/b')).status === 200, 'the slot to be free here');
    assert.equal(await world.client.exists('sg:1:a:c:192.0.2.1'), 0);
  });

  test('degraded: at least one, and others apart', async () => {
    const edge = await world.gateway(by({ limit: 2, on_store_error: 'degraded' }));
    world.store.faults.always(FAULTS.resetBefore);
    held(world, '/a');
    await open(edge, '/a');
    assert.equal((await edge.send('/b')).status, 429);
    assert.equal((await edge.send('/b', { ip: '192.0.2.7' })).status, 200);
  });

  test('degraded: what was taken in the store counts while it runs', async () => {
    const edge = await world.gateway(by({ limit: 20, on_store_error: 'degraded' }));
    const streams = held(world, '/a');
    const opened = [];
    for (let n = 0; n < 5; n += 1) opened.push(await open(edge, '/a'));
    assert.equal((await holders(world, 'a')).length, 5);
    world.store.faults.always(FAULTS.resetBefore);
    assert.equal((await edge.send('/b')).headers['sluicegate-tier'], 'degraded');
    assert.equal((await edge.send('/b')).status, 429);
    for (const [n, stream] of streams.entries()) {
      if (n > 0) stream.end();
      if (n > 0) await opened[n].whole();
    }
    await until(async () => (await edge.send('/b')).status === 200, 'fewer than the share here');
  });

  test('degraded: a holder that is never heard of again is dropped at its lease’s end', async () => {
    const edge = await world.gateway(
      by({ limit: 2, lease: '1s', on_store_error: 'degraded' }, { store: { timeout: '300ms' } }),
    );
    world.store.faults.always(FAULTS.resetBefore);
    world.origin.server.once('upgrade', (_, socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'));
    held(world, '/a');
    const first = await open(edge, '/a');
    // Renewed here while it runs, past its lease.
    const began = performance.now();
    await until(() => performance.now() - began > 1500, 'longer than the lease');
    assert.equal((await edge.send('/b')).status, 429);
    first.reset();
    await until(async () => (await edge.send('/b')).status === 200, 'the slot to be free here');
  });

  test('a free that fails is left to the lease', async () => {
    const edge = await world.gateway(by({ lease: '1s' }, { store: { timeout: '300ms', retry: { budget: 0 } } }));
    const streams = held(world, '/a');
    const first = await open(edge, '/a');
    const [taken] = await holders(world, 'a');
    world.store.faults.always({ ...FAULTS.resetBefore, match: (command) => command.includes('free') });
    streams[0].end();
    await first.whole();
    assert.equal((await edge.logged('store-failing')).length, 1);
    world.store.faults.clear();
    assert.deepEqual(
      (await holders(world, 'a')).map(({ fence }) => fence),
      [taken.fence],
    );
    await until(async () => (await edge.send('/b')).status === 200, 'the slot');
    assert.ok((await storeClock(world)) <= taken.expires + 2000);
  });

  test('a renewal that fails is made again, and the slot is kept', async () => {
    const edge = await world.gateway(by({ lease: '2s' }, { store: { timeout: '300ms', retry: { budget: 0 } } }));
    const streams = held(world, '/a');
    const first = await open(edge, '/a');
    const [taken] = await holders(world, 'a');
    world.store.faults.push({ ...FAULTS.resetBefore, match: (command) => command.includes('renew') }, 1);
    await until(async () => (await storeClock(world)) > taken.expires, 'the end of the first lease');
    assert.equal(world.store.faults.pending(), 0);
    assert.deepEqual(
      (await holders(world, 'a')).map(({ fence }) => fence),
      [taken.fence],
    );
    streams[0].end();
    await first.whole();
    await untilHeld(world, 'a', 0);
  });

  test('the breaker is respected by what is freed', async () => {
    const breaker = { ...CALM_BREAKER, min_calls: 1, open: '10m', max_open: '10m', long_open: '10m' };
    const edge = await world.gateway(by({ on_store_error: 'open' }, { store: { breaker, retry: { budget: 0 } } }));
    const streams = held(world, '/a');
    const first = await open(edge, '/a');
    world.store.faults.always(FAULTS.resetBefore);
    await edge.send('/b');
    const calls = world.store.stats.requests;
    streams[0].end();
    await first.whole();
    for (let sent = 0; sent < 5; sent += 1) await edge.send('/b');
    assert.equal(world.store.stats.requests, calls);
  });

  test('a reply lost after the slot was taken: asked again, one slot, with a charge id one charge', async () => {
    for (const store of [{ exactly_once: true }, {}]) {
      await world.client.flushAll();
      const limits = [concurrency('a', { limit: 5 }), limit('rate', { limit: 9 })];
      const names = 'exactly_once' in store ? ['a', 'rate'] : ['a'];
      const retry = { budget: 1, backoff: '0s' };
      const edge = await world.gateway(policy(limits, [route('/a', names)], { store: { retry, ...store } }));
      const streams = held(world, '/a');
      world.store.faults.push(FAULTS.resetAfter);
      const first = await open(edge, '/a');
      assert.equal(first.response.headers['sluicegate-tier'], 'store');
      assert.equal((await holders(world, 'a')).length, 1);
      streams[0].end();
      await first.whole();
      await untilHeld(world, 'a', 0);
      world.origin.handlers.clear();
      if (names.length > 1) assert.equal(left(await edge.send('/a'), 'rate'), 7);
    }
  });

  test('without a store the whole limit holds in the isolate', async () => {
    const edge = await world.gateway(by({ limit: 3 }), { UPSTASH_REDIS_REST_URL: undefined });
    const streams = held(world, '/a');
    const opened = [];
    for (let n = 0; n < 3; n += 1) opened.push(await open(edge, '/a'));
    assert.equal(opened[2].response.headers['sluicegate-tier'], 'isolate');
    assert.equal((await edge.send('/b')).status, 429);
    streams[1].end();
    await opened[1].whole();
    await until(async () => (await edge.send('/b')).status === 200, 'the slot to be free');
    const both = policy([concurrency('a'), limit('rate', { limit: 2 })], [route('/a', ['rate', 'a'])]);
    const apart = await world.gateway(both, { UPSTASH_REDIS_REST_URL: undefined });
    await open(apart, '/a');
    assert.equal(left(await apart.send('/a'), 'rate'), 1, 'all or nothing');
  });
});

describe('a store that is flushed', () => {
  test('mid-run: at most twice the limit hold, for at most a lease, and fences rise', async () => {
    const edges = await Promise.all(
      [1, 2].map(() => world.gateway(by({ limit: 5, lease: '3s' }, { store: { timeout: '1s' } }))),
    );
    const streams = held(world, '/a');
    const before = [];
    for (let n = 0; n < 5; n += 1) before.push(await open(edges[n % 2], '/a'));
    const old = await holders(world, 'a');
    assert.equal((await edges[0].send('/b')).status, 429);
    await world.client.flushAll();
    const flushed = await storeClock(world);
    const replies = [];
    for (let n = 0; n < 10; n += 1) replies.push(await open(edges[n % 2], '/a'));
    const passed = replies.filter(({ response }) => response.statusCode === 200);
    assert.equal(passed.length, 5);
    const now = await holders(world, 'a');
    const highest = Math.max(...old.map(({ fence }) => fence));
    assert.ok(now.every(({ fence }) => fence > highest));
    // Each of the old learns by its next renewal that its slot is gone, and is no holder any more.
    await Promise.all(edges.map((edge) => edge.logged('lease-lost')));
    assert.ok((await storeClock(world)) <= flushed + 3000);
    assert.equal((await holders(world, 'a')).length, 5);
    for (const stream of streams) stream.end();
    await Promise.all([...before, ...passed].map((client) => client.whole()));
    await untilHeld(world, 'a', 0);
    for (const edge of edges) assert.equal((await edge.logged('lease-lost')).length, 1, 'once, not once a request');
  });
});

describe('several gateways', () => {
  test('never hold more than the limit together', async () => {
    const edges = await Promise.all([1, 2, 3].map(() => world.gateway(by({ limit: 7, key: ['global'] }))));
    let running = 0;
    let most = 0;
    world.origin.handlers.set('/a', (response) => {
      running += 1;
      most = Math.max(most, running);
      response.write('begun');
      setImmediate(() => {
        running -= 1;
        response.end('done');
      });
    });
    const replies = await many(600, (n) => edges[n % 3].send('/a'), 60);
    assert.deepEqual(Object.keys(tiers(replies)), ['store']);
    assert.ok(most <= 7, `${most} ran at once`);
    assert.ok((statuses(replies)[200] ?? 0) >= 7);
    await untilHeld(world, 'a', 0, '-');
  });

  test('of which some are killed: the limit is never passed, and all slots come back', async () => {
    const leased = by({ limit: 4, lease: '1s', key: ['global'] }, { store: { timeout: '300ms' } });
    const edges = await Promise.all([1, 2, 3].map(() => world.gateway(leased)));
    const streams = held(world, '/a');
    for (let n = 0; n < 4; n += 1) await open(edges[n % 2], '/a');
    process.kill(edges[0].pid, 'SIGKILL');
    process.kill(edges[1].pid, 'SIGKILL');
    const lasts = (await holders(world, 'a', '-')).map(({ expires }) => expires);
    const taken = [];
    await until(async () => {
      const next = await open(edges[2], '/a');
      if (next.response.statusCode === 200) taken.push(next);
      assert.ok((await holders(world, 'a', '-')).length <= 4);
      return taken.length === 4;
    }, 'four slots');
    assert.ok((await storeClock(world)) <= Math.max(...lasts) + 1000);
    assert.equal(streams.length, 8);
  });
});
