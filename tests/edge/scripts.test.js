// The script in the store: forgotten, flushed, refused, and run twice by nobody.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { startStore } from '../../dev/store/server.js';
import { many, statuses, tiers } from './support/client.js';
import { left } from './support/fields.js';
import { limit, policy } from './support/policy.js';
import { DIALECT, useWorld } from './support/world.js';

const world = useWorld();

/** Of the upstash form, where the endpoint is to take the plain one alone. */
const skip = DIALECT === 'redis' && 'the endpoint is a plain Redis';

/** The dialects that the endpoint takes. */
const DIALECTS = skip ? ['redis'] : ['redis', 'upstash'];

/** @param {string} dialect @param {Record<string, unknown>} [fields] */
const inDialect = (dialect, fields) => policy([limit('a', fields)], undefined, { store: { dialect, remember: '0s' } });

describe('a store that forgets', () => {
  for (const dialect of DIALECTS) {
    test(`SCRIPT FLUSH under load, ${dialect}: no client sees it, and the count is exact`, async () => {
      // FIELD-REPORTS B04.
      const edge = await world.gateway(inDialect(dialect, { limit: 300 }));
      const running = many(1000, () => edge.send('/a'), 32);
      for (let flushes = 0; flushes < 20; flushes += 1) {
        const seen = world.store.stats.requests;
        await world.client.scriptFlush();
        while (world.store.stats.requests < seen + 20) await new Promise(setImmediate);
      }
      const replies = await running;
      assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 300, 429: 700 }, { store: 1000 }]);
    });
  }

  test('FLUSHALL under load: no client sees it, and counting goes on', async () => {
    const edge = await world.gateway(inDialect('redis', { limit: 100 }));
    const running = many(1000, () => edge.send('/a'), 32);
    while (world.store.stats.requests < 400) await new Promise(setImmediate);
    await world.client.flushAll();
    const replies = await running;
    // A hundred before the flush and a hundred behind it.
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 200, 429: 800 }, { store: 1000 }]);
  });
});

describe('NOSCRIPT', () => {
  for (const dialect of DIALECTS) {
    test(`once, ${dialect}: one EVAL follows, and one decision`, async () => {
      const edge = await world.gateway(inDialect(dialect));
      await edge.send('/a');
      world.store.stats.reset();
      world.store.faults.push(FAULTS.noscript);
      const reply = await edge.send('/a');
      assert.deepEqual([reply.status, left(reply, 'a')], [200, 1]);
      assert.deepEqual({ ...world.store.stats.commands }, { EVALSHA: 1, EVAL: 1 });
      assert.equal(world.store.stats.requests, 2);
    });
  }

  test('for the first call ever: the same, and every later one goes by the hash alone', async () => {
    await world.client.scriptFlush();
    const edge = await world.gateway(inDialect('redis'));
    await many(3, () => edge.send('/a'), 1);
    assert.deepEqual({ ...world.store.stats.commands }, { EVALSHA: 3, EVAL: 1 });
  });

  test('again and again: one EVAL, and then the policy decides', async () => {
    const edge = await world.gateway(inDialect('redis', { on_store_error: 'open' }));
    world.store.faults.always(FAULTS.noscript);
    assert.equal((await edge.send('/a')).headers['sluicegate-tier'], 'open');
    assert.deepEqual({ ...world.store.stats.commands }, { EVALSHA: 1, EVAL: 1 });
  });
});

describe('a reply that is lost', () => {
  /** @type {[string, import('../../dev/store/faults.js').Fault][]} */
  const lost = [
    ['a reset', FAULTS.resetAfter],
    ['a body cut short', FAULTS.cut],
    ['a 502 in HTML', { ...FAULTS.html502, apply: true }],
    ['null', { ...FAULTS.nullBody, apply: true }],
  ];
  for (const [what, fault] of lost) {
    test(`${what} behind a charge: the store saw one call, and the policy decided`, async () => {
      // FIELD-REPORTS B05: what may have run is not sent again.
      const edge = await world.gateway(inDialect('redis', { on_store_error: 'open' }));
      await edge.send('/a');
      world.store.stats.reset();
      world.store.faults.push(fault);
      assert.equal((await edge.send('/a')).headers['sluicegate-tier'], 'open');
      assert.deepEqual({ ...world.store.stats.commands }, { EVALSHA: 1 });
      assert.equal(left(await edge.send('/a'), 'a'), 0, 'three charges');
    });
  }
});

describe('dialects', () => {
  /** The first bytes of every script that was sent. */
  const sent = () =>
    world.store.stats
      .recent()
      .flatMap(({ commands }) => commands)
      .filter(([name]) => name === 'EVAL')
      .map(([, script]) => script.split('\n')[0]);

  test('auto, for a host that is not Upstash’s: the plain form', async () => {
    await world.client.scriptFlush();
    const edge = await world.gateway(inDialect('auto'));
    assert.equal((await edge.send('/a')).status, 200);
    assert.equal(sent().length, 1);
    assert.ok(!sent()[0].startsWith('#!'));
  });

  test('upstash: the form with its flag', { skip }, async () => {
    await world.client.scriptFlush();
    const edge = await world.gateway(inDialect('upstash'));
    assert.equal((await edge.send('/a')).status, 200);
    assert.deepEqual(sent(), ['#!lua flags=allow-key-locking']);
  });

  test('both count the same keys', { skip }, async () => {
    const [plain, flagged] = await Promise.all(['redis', 'upstash'].map((name) => world.gateway(inDialect(name))));
    await plain.send('/a');
    await flagged.send('/a');
    assert.equal(left(await plain.send('/a'), 'a'), 0);
    assert.equal((await flagged.send('/a')).status, 429);
  });

  test('upstash against a plain Redis: the policy decides, no 5xx unless closed', async () => {
    const plain = await startStore({ redis: world.redis.url, dialect: 'redis' });
    try {
      await world.client.scriptFlush();
      const vars = { UPSTASH_REDIS_REST_URL: plain.url };
      for (const [on_store_error, status] of /** @type {const} */ ([
        ['open', 200],
        ['degraded', 200],
        ['closed', 503],
      ])) {
        const edge = await world.gateway(inDialect('upstash', { on_store_error }), vars);
        const reply = await edge.send('/a');
        assert.equal(reply.status, status, on_store_error);
        const [line] = await edge.logged('store-failing');
        assert.equal(line.reason, 'dialect');
      }
      const edge = await world.gateway(inDialect('auto'), vars);
      assert.equal((await edge.send('/a')).headers['sluicegate-tier'], 'store');
    } finally {
      await plain.close();
    }
  });
});
