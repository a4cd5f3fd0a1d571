// Redis dies, the endpoint is away or hangs: each limit does what its policy says, in time, and counting goes on.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { many, statuses, tiers } from './support/client.js';
import { left, problem, QUOTA_EXCEEDED, REDUCED_CAPACITY } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { until, useWorld } from './support/world.js';

const world = useWorld();

/** Well beyond any deadline here, well short of a hang. */
const HANGS_MS = 5000;

const byFailure = policy(
  [
    limit('opens', { limit: 50, on_store_error: 'open' }),
    limit('closes', { limit: 50, on_store_error: 'closed' }),
    limit('degrades', { limit: 50, on_store_error: 'degraded' }),
  ],
  [
    route('/open', ['opens']),
    route('/closed', ['closes']),
    route('/degraded', ['degrades']),
    route('/both', ['opens', 'degrades']),
    route('/all', ['opens', 'degrades', 'closes']),
  ],
  { store: { timeout: '1s', remember: '0s' } },
);

/** The same with the timeout that is usual. */
const quick = { ...byFailure, store: { timeout: '150ms', remember: '0s' } };

async function killRedis() {
  await world.redis.kill();
  await until(() => world.redisIs === 'down', 'the endpoint to notice');
}

async function restartRedis() {
  await world.redis.restart();
  await until(() => world.redisIs === 'up' && world.client.isReady, 'Redis to be back');
}

/** What each policy must answer while the store is down. @param {import('./support/world.js').Edge} edge */
async function followsPolicy(edge, ip = '192.0.2.1') {
  const open = await many(60, () => edge.send('/open', { ip }), 20);
  assert.deepEqual([statuses(open), tiers(open)], [{ 200: 60 }, { open: 60 }]);

  const closed = await many(10, () => edge.send('/closed', { ip }));
  assert.deepEqual([statuses(closed), tiers(closed)], [{ 503: 10 }, { closed: 10 }]);
  for (const reply of closed) {
    const document = problem(reply, 503);
    assert.equal(document.type, REDUCED_CAPACITY);
    assert.deepEqual(document['violated-policies'], ['closes']);
    assert.equal(reply.headers['retry-after'], String(document.retry_after));
    assert.ok(document.retry_after >= 1);
  }

  const degraded = await many(60, () => edge.send('/degraded', { ip }), 20);
  assert.deepEqual([statuses(degraded), tiers(degraded)], [{ 200: 5, 429: 55 }, { degraded: 60 }]);
  const refused = degraded.filter(({ status }) => status === 429);
  for (const reply of refused) assert.equal(problem(reply, 429).type, REDUCED_CAPACITY);

  assert.equal((await edge.send('/both', { ip })).status, 429, 'open does not open what is degraded');
  assert.equal((await edge.send('/all', { ip })).status, 503, 'closed goes first');
}

describe('Redis killed mid-run', () => {
  test('each limit does what its policy says, and after the restart counting goes on', async () => {
    const edge = await world.gateway(byFailure);
    assert.equal(left(await edge.send('/closed', { ip: '192.0.2.9' }), 'closes'), 49);
    await killRedis();
    await followsPolicy(edge);
    await restartRedis();
    // The restarted Redis is empty and knows no script.
    const replies = await many(60, () => edge.send('/closed'), 20);
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 50, 429: 10 }, { store: 60 }]);
    const refused = replies.find(({ status }) => status === 429);
    assert.equal(refused && problem(refused, 429).type, QUOTA_EXCEEDED);
    assert.equal((await edge.logged('store-recovered')).length, 1);
  });

  test('while 400 requests are on their way: each is answered, by the store or by the policy', async () => {
    const edge = await world.gateway(byFailure);
    const running = many(
      400,
      (index) => edge.send(['/open', '/closed', '/degraded'][index % 3], { ip: '192.0.2.4' }),
      32,
    );
    await until(() => world.store.stats.requests > 60, 'the run to be under way');
    await killRedis();
    const replies = await running;
    await restartRedis();
    const allowed = { '/open': [200, 429], '/closed': [200, 429, 503], '/degraded': [200, 429] };
    const paths = /** @type {(keyof typeof allowed)[]} */ (Object.keys(allowed));
    for (const [index, { status }] of replies.entries()) {
      assert.ok(allowed[paths[index % 3]].includes(status), `${paths[index % 3]} answered ${status}`);
    }
    const known = new Set(['store', 'open', 'closed', 'degraded']);
    assert.deepEqual(
      Object.keys(tiers(replies)).filter((tier) => !known.has(tier)),
      [],
    );
  });

  test('a Redis that is stopped, not gone, is not waited for beyond the deadline', async () => {
    const edge = await world.gateway(byFailure);
    await edge.send('/open');
    await world.redis.kill('SIGSTOP');
    try {
      const began = performance.now();
      assert.equal((await edge.send('/open')).headers['sluicegate-tier'], 'open');
      assert.ok(performance.now() - began < HANGS_MS);
    } finally {
      await world.redis.kill('SIGCONT');
    }
  });
});

test('three isolates without their store pass no more than their shares', async () => {
  // FIELD-REPORTS B42.
  const limits = [limit('a', { limit: 50, on_store_error: 'degraded' })];
  const edges = await Promise.all([1, 2, 3].map(() => world.gateway(policy(limits))));
  const before = await many(20, (index) => edges[index % 3].send('/a', { ip: '192.0.2.1' }));
  assert.deepEqual(statuses(before), { 200: 20 });
  world.store.faults.always(FAULTS.resetBefore);
  const known = await many(150, (index) => edges[index % 3].send('/a', { ip: '192.0.2.1' }), 32);
  assert.ok((statuses(known)[200] ?? 0) <= 3 * 5, 'more than the shares of three isolates');
  const unknown = await many(150, (index) => edges[index % 3].send('/a', { ip: '192.0.2.2' }), 32);
  assert.deepEqual(statuses(unknown), { 200: 3 * 5, 429: 135 });
  world.store.faults.clear();
  const after = await many(40, (index) => edges[index % 3].send('/a', { ip: '192.0.2.1' }));
  assert.deepEqual(statuses(after), { 200: 30, 429: 10 }, 'something was replayed into the store');
});

test('a share is at least one request', async () => {
  const limits = [limit('a', { limit: 3, on_store_error: 'degraded' })];
  const edge = await world.gateway(policy(limits));
  world.store.faults.always(FAULTS.resetBefore);
  assert.deepEqual(statuses(await many(5, () => edge.send('/a'))), { 200: 1, 429: 4 });
});

describe('an endpoint that is down from the first request', () => {
  // FIELD-REPORTS B46.
  test('refused connections', async () => {
    const edge = await world.gateway(byFailure, { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' });
    await followsPolicy(edge);
  });

  test('a name that does not resolve', async () => {
    const edge = await world.gateway(quick, { UPSTASH_REDIS_REST_URL: 'http://store.invalid' });
    await followsPolicy(edge);
  });

  test('something that is no URL', async () => {
    const edge = await world.gateway(byFailure, { UPSTASH_REDIS_REST_URL: 'not a url' });
    await followsPolicy(edge);
  });
});

describe('a store that hangs', () => {
  /** @type {[string, import('../../dev/store/faults.js').Fault][]} */
  const hangs = [
    ['before it answers', FAULTS.stall],
    ['behind its headers', FAULTS.stallAfterHeaders],
    ['between the bytes of its body', FAULTS.drip(40)],
  ];
  for (const [where, fault] of hangs) {
    test(`${where}: the policy answers after the timeout`, async () => {
      // FIELD-REPORTS B39.
      const edge = await world.gateway(quick);
      world.store.faults.always(fault);
      const began = performance.now();
      const [open, closed, degraded] = await Promise.all(
        ['/open', '/closed', '/degraded'].map((path) => edge.send(path)),
      );
      const took = performance.now() - began;
      assert.deepEqual(tiers([open, closed, degraded]), { open: 1, closed: 1, degraded: 1 });
      assert.deepEqual([open.status, closed.status, degraded.status], [200, 503, 200]);
      assert.ok(took >= 149, `answered after ${took} ms, before the timeout`);
      assert.ok(took < HANGS_MS, `answered after ${took} ms`);
    });
  }

  test('a hundred at once: none hangs', async () => {
    const edge = await world.gateway(quick);
    world.store.faults.always(FAULTS.stall);
    const began = performance.now();
    const replies = await many(100, () => edge.send('/open'));
    assert.deepEqual(statuses(replies), { 200: 100 });
    assert.ok(performance.now() - began < HANGS_MS);
  });

  test('what came too late is not counted as an answer', async () => {
    const edge = await world.gateway(quick);
    world.store.faults.push(FAULTS.late(400));
    assert.equal((await edge.send('/open')).headers['sluicegate-tier'], 'open');
  });
});

test('200 failing requests, then a recovery: one log line for each transition', async () => {
  // FIELD-REPORTS B45.
  const edge = await world.gateway(byFailure);
  world.store.faults.always(FAULTS.html502);
  assert.deepEqual(statuses(await many(200, () => edge.send('/open'), 32)), { 200: 200 });
  world.store.faults.clear();
  const recovered = () => edge.log().some(({ event }) => event === 'store-recovered');
  // It is well again when it has not failed for a while, and only a request can tell.
  await until(async () => (await edge.send('/open')).status === 200 && recovered(), 'the recovery');
  const events = edge.log().map(({ event }) => event);
  assert.deepEqual(events, ['store-failing', 'store-recovered']);
});
