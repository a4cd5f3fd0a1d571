// Several limits on a request, and limits on several routes: who is charged, and what it costs the store.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { many, statuses, tiers } from './support/client.js';
import { left, rateLimit } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

/** What is left of a limit, charging nothing. @param {import('./support/world.js').Edge} edge @param {string} name */
async function look(edge, name, subject = { ip: '192.0.2.1' }) {
  const answer = (await edge.check({ limits: [name], subject, cost: 0 })).json();
  return answer.limits[0].remaining;
}

describe('all or nothing', () => {
  test('where one limit refuses, the other is not charged', async () => {
    // FIELD-REPORTS B29.
    const limits = [limit('a', { limit: 10 }), limit('b', { limit: 30 })];
    const edge = await world.gateway(policy(limits, undefined, { store: { remember: '0s' } }));
    assert.deepEqual(statuses(await many(31, () => edge.send('/a'))), { 200: 10, 429: 21 });
    assert.equal(await look(edge, 'a'), 0);
    assert.equal(await look(edge, 'b'), 20);
  });

  test('whichever stands first', async () => {
    const limits = [limit('a', { limit: 30 }), limit('b', { limit: 10 })];
    const edge = await world.gateway(policy(limits));
    assert.deepEqual(statuses(await many(31, () => edge.send('/a'))), { 200: 10, 429: 21 });
    assert.equal(await look(edge, 'a'), 20);
  });

  test('one that never refused this subject leaves no key behind a refusal', async () => {
    const limits = [limit('shut', { limit: 1, key: ['global'] }), limit('mine', { limit: 9 })];
    const edge = await world.gateway(policy(limits, undefined, { store: { remember: '0s' } }));
    await edge.send('/a', { ip: '192.0.2.1' });
    assert.equal((await edge.send('/a', { ip: '192.0.2.2' })).status, 429);
    assert.deepEqual(
      (await world.keys()).filter((key) => key.endsWith('192.0.2.2')),
      [],
    );
  });

  test('a proxied request is charged once', async () => {
    // FIELD-REPORTS B31.
    const edge = await world.gateway(policy([limit('a', { limit: 100 })]));
    for (const expected of [99, 98, 97]) {
      assert.equal(left(await edge.send('/a', { method: 'POST', body: 'x' }), 'a'), expected);
    }
    assert.equal(await look(edge, 'a'), 97);
  });
});

describe('one limit on two routes', () => {
  test('is one limit', async () => {
    const edge = await world.gateway(
      policy([limit('a', { limit: 10 })], [route('/one', ['a']), route('/two/{*rest}', ['a'])]),
    );
    const replies = await many(30, (index) => edge.send(index % 2 ? '/one' : `/two/${index}`));
    assert.deepEqual(statuses(replies), { 200: 10, 429: 20 });
  });

  test('is split by `route` in its key', async () => {
    const limits = [limit('a', { limit: 10, key: ['route', 'ip'] })];
    const edge = await world.gateway(policy(limits, [route('/one', ['a']), route('/two', ['a'])]));
    for (const path of ['/one', '/two']) {
      assert.deepEqual(statuses(await many(15, () => edge.send(path))), { 200: 10, 429: 5 }, path);
    }
  });

  test('each client has its own', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    for (const ip of ['192.0.2.1', '192.0.2.2', '2001:db8:1:2::1', '2001:db8:1:3::1', '::ffff:192.0.2.3']) {
      assert.deepEqual(statuses(await many(5, () => edge.send('/a', { ip }))), { 200: 3, 429: 2 }, ip);
    }
    const same = ['2001:db8:1:2:aaaa::9', '192.0.2.3', '::ffff:192.0.2.2'];
    for (const ip of same) assert.equal((await edge.send('/a', { ip })).status, 429, ip);
  });

  test('no header but the trusted one says who a client is', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 10 })]));
    const replies = await many(40, (index) => {
      const forged = `203.0.113.${index}`;
      return edge.send('/a', { headers: { 'x-forwarded-for': forged, 'true-client-ip': forged, forwarded: forged } });
    });
    assert.deepEqual(statuses(replies), { 200: 10, 429: 30 });
  });
});

describe('what a decision costs the store', () => {
  for (const count of [1, 3, 10]) {
    test(`${count} limits: one HTTP request, and 2 + ${count} commands; a refusal 2; remembered 0`, async () => {
      const names = Array.from({ length: count }, (_, index) => `l${index}`);
      const limits = names.map((name, index) => limit(name, { limit: index === 0 ? 2 : 100 }));
      const edge = await world.gateway(policy(limits));
      await edge.send('/a');

      const measure = async () => {
        world.store.stats.reset();
        await world.resetCommands();
        const { status, headers } = await edge.send('/a');
        return [status, headers['sluicegate-tier'], world.store.stats.requests, await world.commands()];
      };
      assert.deepEqual(await measure(), [200, 'store', 1, { evalsha: 1, mget: 1, set: count }]);
      assert.deepEqual(await measure(), [429, 'store', 1, { evalsha: 1, mget: 1 }]);
      assert.deepEqual(await measure(), [429, 'cache', 0, {}]);
    });
  }

  for (const algorithm of ['token-bucket', 'sliding-window', 'sliding-log']) {
    test(`${algorithm}: 3 passed, 2 refused, 0 refused again`, async () => {
      const edge = await world.gateway(policy([limit('a', { algorithm, limit: 2 })]));
      await edge.send('/a');
      for (const expected of [{ evalsha: 1, mget: 1, set: 1 }, { evalsha: 1, mget: 1 }, {}]) {
        await world.resetCommands();
        await edge.send('/a');
        assert.deepEqual(await world.commands(), expected);
      }
    });
  }

  test('clock = "store": one TIME a decision, whatever the number of limits', async () => {
    const limits = ['a', 'b', 'c'].map((name) => limit(name, { limit: 2 }));
    const edge = await world.gateway(policy(limits, undefined, { store: { clock: 'store' } }));
    await edge.send('/a');
    for (const expected of [{ evalsha: 1, mget: 1, time: 1, set: 3 }, { evalsha: 1, mget: 1, time: 1 }, {}]) {
      await world.resetCommands();
      await edge.send('/a');
      assert.deepEqual(await world.commands(), expected);
    }
  });

  test('remember = "0s": every refusal is the store’s', async () => {
    const edge = await world.gateway(policy([limit('a')], undefined, { store: { remember: '0s' } }));
    const replies = await many(20, () => edge.send('/a'));
    assert.deepEqual(tiers(replies), { store: 20 });
  });

  test('a remembered refusal tells the rest of the same wait', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 1, algorithm: 'sliding-log', window: '1h' })]));
    await edge.send('/a');
    const first = await edge.send('/a');
    const second = await edge.send('/a');
    assert.equal(second.headers['sluicegate-tier'], 'cache');
    const [told, retold] = [first, second].map(({ headers }) => Number(headers['retry-after']));
    assert.ok(retold <= told && told - retold <= 5, `${told} and then ${retold}`);
    assert.equal(rateLimit(second).a.t, retold);
  });
});

test('every key has a TTL after a mixed run, long enough and no longer than its time', async () => {
  // FIELD-REPORTS B01.
  const algorithms = ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket'];
  const limits = algorithms.flatMap((algorithm) =>
    ['1s', '1m', '400d'].map((window) => limit(`${algorithm}-${window}`, { algorithm, window, limit: 50 })),
  );
  const edge = await world.gateway(policy(limits));
  await many(200, (index) => edge.send('/a', { ip: `192.0.2.${index % 7}` }), 16);
  const keys = await world.keys();
  assert.ok(keys.length >= 12 * 2, 'the run left keys');
  for (const key of keys) {
    const ttl = await world.client.pTTL(key);
    // −2: gone since, as it should.
    assert.ok(ttl > 0 || ttl === -2, `${key} has no TTL`);
    assert.ok(ttl <= 2 * 400 * 86_400_000 + 10_000, `${key} stays ${ttl} ms`);
  }
});

test('a key found without a TTL is healed by the next charge', async () => {
  const edge = await world.gateway(policy([limit('a')]));
  await edge.send('/a');
  const [key] = await world.keys();
  await world.client.persist(key);
  assert.equal(left(await edge.send('/a'), 'a'), 1);
  assert.ok((await world.client.pTTL(key)) > 0);
});

test('a remembered refusal ends when the store would pass, however long the store took to refuse', async () => {
  const bucket = limit('a', { algorithm: 'token-bucket', limit: 1, burst: 1, window: '1s' });
  const edge = await world.gateway(policy([bucket]));
  await edge.send('/a');
  const refilled = performance.now() + 1000;
  world.store.faults.push(FAULTS.late(600));
  assert.equal((await edge.send('/a')).status, 429);
  await new Promise((resolve) => setTimeout(resolve, refilled + 10 - performance.now()));
  const reply = await edge.send('/a');
  assert.deepEqual([reply.status, reply.headers['sluicegate-tier']], [200, 'store']);
});
