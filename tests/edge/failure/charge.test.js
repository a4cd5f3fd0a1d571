// Charge ids: one logical request is charged once, however often it arrives and whatever becomes of the replies.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses, tiers } from '../support/client.js';
import { during, look } from '../support/failing.js';
import { left, problem, QUOTA_EXCEEDED } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { useWorld } from '../support/world.js';

const world = useWorld();

const ALGORITHMS = ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket'];

const sections = (/** @type {object} */ store) => {
  return { store: { remember: '0s', retry: { budget: 1, backoff: '0s' }, ...store } };
};

const retrying = (store = {}) =>
  policy([limit('open', { limit: 10, on_store_error: 'open' })], undefined, sections(store));

const keyed = (fields = {}, store = {}) => {
  const idempotent = { limit: 10, on_store_error: 'open', idempotency: 'header:idempotency-key', ...fields };
  const routes = [route('/a', ['open']), route('/b', ['open']), route('/other', ['other'])];
  return policy([limit('open', idempotent), limit('other', { limit: 10 })], routes, sections(store));
};

/** @param {string} key @param {import('../support/client.js').Sent} [sent] */
const under = (key, { headers, ...sent } = {}) => ({ headers: { 'idempotency-key': key, ...headers }, ...sent });

const charges = async () => (await world.keys()).filter((key) => key.includes('charge'));

describe('exactly_once', () => {
  for (const fault of /** @type {const} */ (['resetAfter', 'cut'])) {
    test(`a reply lost by ${fault} after the script ran: two calls, one charge, the first answer`, async () => {
      const edge = await world.gateway(retrying({ exactly_once: true }));
      await edge.send('/a');
      world.store.faults.push(FAULTS[fault]);
      const { answer, calls } = await during(world, edge, () => edge.send('/a'));
      assert.deepEqual([answer.status, answer.headers['sluicegate-tier'], calls], [200, 'store', 2]);
      assert.equal(left(answer, 'open'), 8);
      assert.equal(await look(edge, 'open', '192.0.2.1'), 8);
    });
  }

  test('without it: one call, and the policy answers', async () => {
    const edge = await world.gateway(retrying());
    world.store.faults.push(FAULTS.resetAfter);
    const { answer, calls } = await during(world, edge, () => edge.send('/a'));
    assert.deepEqual([answer.headers['sluicegate-tier'], calls], ['open', 1]);
  });

  for (const algorithm of ALGORITHMS) {
    test(`the last unit of a ${algorithm}, its reply lost: passes, and the next is refused`, async () => {
      const only = limit('open', { algorithm, limit: 1, on_store_error: 'open', window: '1d' });
      const edge = await world.gateway(policy([only], undefined, sections({ exactly_once: true })));
      world.store.faults.push(FAULTS.resetAfter);
      const { answer } = await during(world, edge, () => edge.send('/a'));
      assert.deepEqual([answer.status, answer.headers['sluicegate-tier']], [200, 'store']);
      assert.equal(problem(await edge.send('/a'), 429).type, QUOTA_EXCEEDED);
    });
  }

  test('every second reply lost, 40 at once: each that passed was charged once', async () => {
    const edge = await world.gateway(retrying({ exactly_once: true }));
    let calls = 0;
    const odd = () => {
      calls += 1;
      return calls % 2 === 1;
    };
    world.store.faults.always({ ...FAULTS.resetAfter, match: odd });
    const replies = await many(40, () => edge.send('/a'));
    const passed = replies.filter(({ status }) => status === 200);
    // The retry of one may meet the fault as well; then its policy let it pass, charged or not.
    const byStore = passed.filter(({ headers }) => headers['sluicegate-tier'] === 'store');
    assert.ok(byStore.length <= 10, `${byStore.length} passed a limit of 10`);
    world.store.faults.clear();
    assert.equal(await look(edge, 'open', '192.0.2.1'), 0);
    const lefts = byStore.map((reply) => left(reply, 'open'));
    assert.equal(new Set(lefts).size, lefts.length, 'two requests were given one charge');
  });

  test('costs a command more for a request that passes, none for one that is refused', async () => {
    const counts = [];
    for (const exactly_once of [false, true]) {
      await world.client.flushAll();
      const edge = await world.gateway(retrying({ exactly_once }));
      await edge.send('/a', { ip: '192.0.2.7' });
      await world.resetCommands();
      await many(10, () => edge.send('/a'), 1);
      const passed = await world.commands();
      await world.resetCommands();
      await many(10, () => edge.send('/a'), 1);
      counts.push([passed, await world.commands()]);
    }
    const refused = { evalsha: 10, mget: 10 };
    assert.deepEqual(counts, [
      [{ ...refused, set: 10 }, refused],
      [{ ...refused, set: 20 }, refused],
    ]);
  });

  test('an id is kept for the deadline and two seconds, and no two calls share one', async () => {
    const edge = await world.gateway(retrying({ exactly_once: true, timeout: '5s' }));
    await many(10, () => edge.send('/a'));
    const kept = await charges();
    assert.equal(kept.length, 10);
    for (const key of kept) {
      const ms = await world.client.pTTL(key);
      assert.ok(ms > 0 && ms <= 7000, `${ms} ms`);
    }
  });
});

describe('an idempotency key', () => {
  for (const algorithm of ALGORITHMS) {
    test(`twice, ${algorithm}: charged once, the same answer`, async () => {
      const edge = await world.gateway(keyed({ algorithm, window: '1d' }));
      const [first, second] = await many(2, () => edge.send('/a', under('k-1')), 1);
      assert.deepEqual(tiers([first, second]), { store: 2 });
      assert.deepEqual([left(first, 'open'), left(second, 'open')], [9, 9]);
      assert.equal(await look(edge, 'open', '192.0.2.1'), 9);
      assert.equal(left(await edge.send('/a', under('k-2')), 'open'), 8);
      assert.equal(left(await edge.send('/a'), 'open'), 7, 'a request without a key is charged each time');
    });
  }

  test('twenty at once: one charge, one answer', async () => {
    const edge = await world.gateway(keyed());
    const replies = await many(20, () => edge.send('/a', under('k')));
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 20 }, { store: 20 }]);
    assert.deepEqual([...new Set(replies.map((reply) => left(reply, 'open')))], [9]);
    assert.equal(await look(edge, 'open', '192.0.2.1'), 9);
  });

  test('from two isolates: one charge', async () => {
    const edges = await Promise.all([world.gateway(keyed()), world.gateway(keyed())]);
    const replies = await many(10, (index) => edges[index % 2].send('/a', under('k')));
    assert.deepEqual([...new Set(replies.map((reply) => left(reply, 'open')))], [9]);
  });

  test('another request under it is 422, and charges nothing', async () => {
    const cost = { header: 'x-cost', default: 1, max: 5 };
    const edge = await world.gateway(keyed({ cost }));
    await edge.send('/a?x=1', under('k'));
    /** @type {[string, string, import('../support/client.js').Sent][]} */
    const others = [
      ['path', '/b?x=1', {}],
      ['query', '/a?x=2', {}],
      ['method', '/a?x=1', { method: 'POST' }],
      ['cost', '/a?x=1', { headers: { 'x-cost': '2' } }],
    ];
    for (const [what, path, sent] of others) {
      const document = problem(await edge.send(path, under('k', sent)), 422);
      assert.match(document.detail, /idempotency key/, what);
    }
    assert.equal(await look(edge, 'open', '192.0.2.1'), 9);
    assert.equal((await edge.send('/a?x=1', under('k'))).status, 200, 'the first is still known');
    assert.equal(world.origin.seen.length, 2, 'a conflict reached the origin');
  });

  test('is a subject’s own, and a limit’s', async () => {
    const edge = await world.gateway(keyed());
    const replies = await many(3, (index) => edge.send('/a', under('k', { ip: `192.0.2.${index + 1}` })));
    assert.deepEqual(
      replies.map((reply) => [reply.status, left(reply, 'open')]),
      [1, 2, 3].map(() => [200, 9]),
    );
    const others = await many(2, () => edge.send('/other', under('k')), 1);
    assert.deepEqual(
      others.map((reply) => left(reply, 'other')),
      [9, 8],
      'a limit that says nothing of it charges each time',
    );
  });

  test('a repeat passes when the limit is used up; a new one is refused, and passes under its key later', async () => {
    const edge = await world.gateway(keyed({}, { remember: '10m' }));
    await many(10, (index) => edge.send('/a', under(`k-${index}`)), 1);
    const [fresh, repeat, again] = [
      await edge.send('/a', under('k-new')),
      await edge.send('/a', under('k-3')),
      await edge.send('/a', under('k-new')),
    ];
    assert.deepEqual([fresh.status, repeat.status, again.status], [429, 200, 429]);
    assert.equal(left(repeat, 'open'), 6, 'as it was answered first');
    await world.client.del((await world.keys()).filter((key) => !key.includes('charge')));
    assert.equal((await edge.send('/a', under('k-new'))).status, 200, 'a refusal was kept under the key');
  });

  test('a reply that is lost: sent again by the gateway, or by the client, charged once', async () => {
    for (const budget of [1, 0]) {
      await world.client.flushAll();
      const edge = await world.gateway(keyed({}, { retry: { budget, backoff: '0s' } }));
      world.store.faults.push(FAULTS.resetAfter);
      const { answer: first } = await during(world, edge, () => edge.send('/a', under('k')));
      assert.equal(first.headers['sluicegate-tier'], budget ? 'store' : 'open');
      const second = await edge.send('/a', under('k'));
      assert.deepEqual([second.headers['sluicegate-tier'], left(second, 'open')], ['store', 9]);
      assert.equal(await look(edge, 'open', '192.0.2.1'), 9);
    }
  });

  for (const [window, ms] of /** @type {[string, number][]} */ ([
    ['1s', 60_000],
    ['10m', 600_000],
    ['7d', 86_400_000],
  ])) {
    test(`is kept for the window, at least a minute, at most a day: ${window}`, async () => {
      const edge = await world.gateway(keyed({ window }));
      await edge.send('/a', under('k'));
      const [key, ...rest] = await charges();
      assert.deepEqual(rest, []);
      const left = await world.client.pTTL(key);
      assert.ok(left <= ms && left > ms - 20_000, `${left} ms`);
    });
  }

  test('is never seen raw: not in Redis, not in the log, not on the way', async () => {
    const edge = await world.gateway(keyed());
    const secret = 'private-idempotency-value';
    await edge.send('/a', under(secret));
    problem(await edge.send('/b', under(secret)), 422);
    world.store.faults.always(FAULTS.html502);
    await many(20, () => edge.send('/a', under(secret)));
    await edge.logged('store-failing');
    const keys = await world.keys();
    assert.equal(keys.length, 2);
    const [charge] = await charges();
    assert.match(charge, /:[\w-]{20,43}$/);
    const value = await world.client.get(charge);
    const sent = JSON.stringify(world.store.stats.recent());
    for (const text of [keys.join(), String(value), sent, edge.logText()]) assert.doesNotMatch(text, /private-/);
  });

  test('any key: empty, long, odd', async () => {
    const edge = await world.gateway(keyed());
    const odd = ['x'.repeat(4000), '"\\', "a','b", '{"json":1}', '..:..:..'];
    for (const [index, key] of odd.entries()) {
      const replies = await many(2, () => edge.send('/a', under(key)), 1);
      assert.deepEqual(
        replies.map((reply) => left(reply, 'open')),
        [9 - index, 9 - index],
        key,
      );
    }
    for (const [index, key] of ['', '\u00ff\u00e9'].entries()) {
      const none = await many(2, () => edge.send('/a', under(key)), 1);
      assert.deepEqual(
        none.map((reply) => left(reply, 'open')),
        [4 - 2 * index, 3 - 2 * index],
        'a key that is empty or no UTF-8 is none',
      );
    }
  });

  test('several limits, one with a key: all are charged once', async () => {
    const both = [
      limit('one', { limit: 10 }),
      limit('two', { limit: 20, key: ['global'], idempotency: 'header:idempotency-key' }),
    ];
    const edge = await world.gateway(policy(both, undefined, sections({})));
    const replies = await many(5, () => edge.send('/a', under('k')));
    for (const reply of replies) assert.deepEqual([left(reply, 'one'), left(reply, 'two')], [9, 19]);
    assert.equal(await look(edge, 'one', '192.0.2.1'), 9);
  });

  test('by POST check, in both forms', async () => {
    const edge = await world.gateway(keyed());
    const subject = { ip: '192.0.2.1', 'header:idempotency-key': 'k' };
    const ask = async (/** @type {object} */ question) => (await edge.check(question)).json();
    for (let times = 0; times < 3; times += 1) {
      const { tier, allowed, limits } = await ask({ limits: ['open'], subject });
      assert.deepEqual([tier, allowed, limits[0].remaining], ['store', true, 9]);
    }
    problem(await edge.check({ limits: ['open'], subject, cost: 2 }), 422);
    const request = { method: 'GET', url: 'http://api.test/a' };
    const headers = { 'cf-connecting-ip': '192.0.2.1', 'Idempotency-Key': 'by-request' };
    for (let times = 0; times < 3; times += 1) {
      const { tier, limits } = await ask({ ...request, headers });
      assert.deepEqual([tier, limits[0].remaining], ['store', 8]);
    }
    assert.equal(await look(edge, 'open', '192.0.2.1'), 8);
  });

  test('is not honoured while the store is away: each repeat counts at the isolate', async () => {
    const edge = await world.gateway(keyed({ on_store_error: 'degraded', limit: 20 }));
    await edge.send('/a', under('k'));
    world.store.faults.always(FAULTS.html502);
    const replies = await many(5, () => edge.send('/a', under('k')), 1);
    assert.deepEqual([tiers(replies), statuses(replies)], [{ degraded: 5 }, { 200: 2, 429: 3 }]);
  });
});
