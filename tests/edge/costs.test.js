// What a request costs, and what its plan, its ban or its exemption makes of it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { left, problem, QUOTA_EXCEEDED, rateLimit, rateLimitPolicy } from './support/fields.js';
import { limit, policy } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

/** @param {string} value */
const cost = (value) => ({ headers: { 'x-cost': value } });

describe('costs', () => {
  const costs = policy([limit('a', { limit: 10, cost: { header: 'x-cost', default: 2, max: 8 } })]);

  test('from the header, or the default', async () => {
    const edge = await world.gateway(costs);
    assert.equal(left(await edge.send('/a'), 'a'), 8);
    assert.equal(left(await edge.send('/a', cost('5')), 'a'), 3);
    const refused = await edge.send('/a', cost('4'));
    assert.deepEqual([refused.status, left(refused, 'a')], [429, 3]);
    assert.equal(left(await edge.send('/a', cost('3')), 'a'), 0);
  });

  test('0 is a look: charges nothing, writes nothing, passes also where nothing is left', async () => {
    const edge = await world.gateway(costs);
    const look = await edge.send('/a', cost('0'));
    assert.deepEqual([look.status, left(look, 'a')], [200, 10]);
    assert.deepEqual(await world.keys(), []);
    await edge.send('/a', cost('8'));
    await edge.send('/a', cost('2'));
    assert.equal((await edge.send('/a', cost('1'))).status, 429);
    const last = await edge.send('/a', cost('0'));
    assert.deepEqual([last.status, left(last, 'a')], [200, 0]);
  });

  test('a refusal of a great cost does not stand for a small one', async () => {
    const edge = await world.gateway(costs);
    await edge.send('/a', cost('8'));
    assert.equal((await edge.send('/a', cost('8'))).status, 429);
    const small = await edge.send('/a', cost('2'));
    assert.deepEqual([small.status, left(small, 'a')], [200, 0]);
  });

  const wrong = [
    '3abc',
    '-1',
    '+1',
    'NaN',
    '1e300',
    '1e0',
    '1.0',
    '0x1',
    'Infinity',
    '9',
    '99999999999999999999',
    '1 2',
    '1, 1',
    '',
  ];
  test('anything else is 400 before the store is asked', async () => {
    const edge = await world.gateway(costs);
    for (const value of wrong) {
      const document = problem(await edge.send('/a', cost(value)), 400);
      assert.match(document.detail, /x-cost.*0 to 8/, value);
    }
    const twice = await edge.send('/a', { headers: { 'x-cost': ['1', '1'] } });
    assert.equal(twice.status, 400, 'said twice');
    assert.equal(world.store.stats.requests, 0);
    assert.equal(world.origin.seen.length, 0);
  });

  test('a fixed cost of the policy', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 10, cost: 4 })]));
    assert.deepEqual(statuses(await many(5, () => edge.send('/a'))), { 200: 2, 429: 3 });
  });

  test('each limit has a cost of its own', async () => {
    const limits = [limit('calls', { limit: 10 }), limit('units', { limit: 10, cost: { header: 'x-cost', max: 8 } })];
    const edge = await world.gateway(policy(limits));
    const reply = await edge.send('/a', cost('3'));
    assert.deepEqual([left(reply, 'calls'), left(reply, 'units')], [9, 7]);
  });
});

describe('a cost above what the subject can ever have', () => {
  // FIELD-REPORTS B26. A policy whose own cost maximum is above a capacity is refused, so this takes an override.
  const costs = policy([limit('a', { limit: 3, cost: { header: 'x-cost', default: 1, max: 3 } })]);

  test('is refused without Retry-After, says so, and leaves the count alone', async () => {
    const edge = await world.gateway(costs);
    await world.client.set('sg:1:a:override-instead-of-the-policy-s-limit:192.0.2.1', '2 0');
    const reply = await edge.send('/a', cost('3'));
    const document = problem(reply, 429);
    assert.deepEqual([document.type, document['violated-policies']], [QUOTA_EXCEEDED, ['a']]);
    assert.match(document.detail, /cost-exceeds-capacity/);
    assert.equal(reply.headers['retry-after'], undefined);
    assert.equal(document.retry_after, undefined);
    assert.equal('t' in rateLimit(reply).a, false);
    assert.equal((await edge.logged('refused'))[0].reason, 'cost-exceeds-capacity');
    assert.equal(left(await edge.send('/a', cost('1')), 'a'), 1);
    assert.equal(left(await edge.send('/a', cost('1')), 'a'), 0);
  });

  test('also of a request that another limit would let wait', async () => {
    const limits = [limit('a', { limit: 3, cost: { header: 'x-cost', default: 1, max: 3 } }), limit('b', { limit: 1 })];
    const edge = await world.gateway(policy(limits));
    await world.client.set('sg:1:a:override-instead-of-the-policy-s-limit:192.0.2.1', '2 0');
    await edge.send('/a');
    const reply = await edge.send('/a', cost('3'));
    assert.equal(reply.status, 429);
    assert.equal(reply.headers['retry-after'], undefined, 'waiting would not help');
  });
});

describe('plans', () => {
  const plans = { free: 2, pro: 5, staff: 'unlimited', spammer: 'blocked' };
  const byPlan = policy([limit('a', { limit: 3, plan: 'header:x-plan', plans })]);
  /** @param {string} name */
  const plan = (name) => ({ ip: `192.0.2.${name.length}`, headers: { 'x-plan': name } });

  test('each gives its own quota; an unknown one and none give the limit’s', async () => {
    const edge = await world.gateway(byPlan);
    for (const [name, quota] of /** @type {const} */ ([
      ['free', 2],
      ['pro', 5],
      ['unknown', 3],
      ['', 3],
    ])) {
      const replies = await many(8, () => edge.send('/a', plan(name)));
      assert.deepEqual(statuses(replies), { 200: quota, 429: 8 - quota }, name);
      assert.equal(rateLimitPolicy(replies[0]).a.q, quota, name);
    }
  });

  test('a change of plan keeps what was used', async () => {
    const edge = await world.gateway(byPlan);
    const as = (/** @type {string} */ name) => edge.send('/a', { headers: { 'x-plan': name } });
    assert.equal(left(await as('free'), 'a'), 1);
    assert.equal(left(await as('pro'), 'a'), 3);
    assert.equal((await as('free')).status, 429);
    assert.equal(left(await as('pro'), 'a'), 2);
  });

  test('"unlimited" never asks the store', async () => {
    const edge = await world.gateway(byPlan);
    const replies = await many(20, () => edge.send('/a', plan('staff')));
    assert.deepEqual(statuses(replies), { 200: 20 });
    assert.equal(world.store.stats.requests, 0);
    assert.equal(replies[0].headers.ratelimit, undefined);
  });

  test('"blocked" lets nothing pass, without Retry-After and without the store', async () => {
    const edge = await world.gateway(byPlan);
    const reply = await edge.send('/a', plan('spammer'));
    const document = problem(reply, 429);
    assert.deepEqual([document.type, document['violated-policies']], [QUOTA_EXCEEDED, ['a']]);
    assert.equal(reply.headers['retry-after'], undefined);
    assert.equal(document.retry_after, undefined);
    assert.equal(world.store.stats.requests, 0);
    assert.equal((await edge.logged('refused'))[0].reason, 'blocked');
  });

  test('a limit that is "unlimited" or "blocked" as a whole', async () => {
    const free = await world.gateway(policy([limit('a', { limit: 'unlimited' })]));
    assert.equal((await free.send('/a')).status, 200);
    const shut = await world.gateway(policy([limit('a', { limit: 'blocked' })]));
    assert.equal((await shut.send('/a')).status, 429);
    assert.equal(world.store.stats.requests, 0);
  });
});

describe('shadow', () => {
  test('counts and reports, never refuses', async () => {
    const limits = [limit('ghost', { limit: 2, shadow: true }), limit('real', { limit: 4 })];
    const edge = await world.gateway(policy(limits));
    const replies = await many(6, () => edge.send('/a'), 1);
    assert.deepEqual(statuses(replies), { 200: 4, 429: 2 });
    assert.deepEqual(replies.map((reply) => left(reply, 'ghost')).slice(0, 4), [1, 0, 0, 0]);
    assert.deepEqual(replies.map((reply) => left(reply, 'real')).slice(0, 4), [3, 2, 1, 0]);
    for (const reply of replies.slice(4)) assert.deepEqual(problem(reply, 429)['violated-policies'], ['real']);
  });

  test('of a limit that is closed does not refuse either while the store is down', async () => {
    const edge = await world.gateway(policy([limit('ghost', { shadow: true })]), {
      UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1',
    });
    assert.equal((await edge.send('/a')).status, 200);
  });
});

describe('exemptions', () => {
  const exempt = {
    ip: ['10.0.0.0/8', '2001:db8::/32'],
    'header:x-internal': 'binding:INTERNAL',
    'header:x-probe': 'yes',
  };
  const exempting = policy([limit('a', { limit: 1, exempt })]);

  test('by network and by header: not counted, and no store call', async () => {
    const edge = await world.gateway(exempting, { INTERNAL: 'internal-secret' });
    /** @type {import('./support/client.js').Sent[]} */
    const free = [
      { ip: '10.1.2.3' },
      { ip: '::ffff:10.1.2.3' },
      { ip: '2001:db8:9::1' },
      { headers: { 'x-internal': 'internal-secret' } },
      { headers: { 'x-probe': 'yes' } },
    ];
    for (const options of free) {
      assert.deepEqual(statuses(await many(3, () => edge.send('/a', options))), { 200: 3 }, JSON.stringify(options));
    }
    assert.equal(world.store.stats.requests, 0);
  });

  test('nobody else: other values, other networks, a binding that is not set', async () => {
    const edge = await world.gateway(exempting);
    /** @type {import('./support/client.js').Sent[]} */
    const counted = [
      { ip: '11.0.0.1' },
      { ip: '2001:db9::1' },
      { ip: '192.0.2.1', headers: { 'x-internal': '' } },
      { ip: '192.0.2.2', headers: { 'x-internal': 'undefined' } },
      { ip: '192.0.2.3', headers: { 'x-internal': 'binding:INTERNAL' } },
      { ip: '192.0.2.4', headers: { 'x-probe': 'YES' } },
      { ip: '192.0.2.5', headers: { 'x-forwarded-for': '10.0.0.1' } },
    ];
    for (const options of counted) {
      assert.deepEqual(
        statuses(await many(2, () => edge.send('/a', options))),
        { 200: 1, 429: 1 },
        JSON.stringify(options),
      );
    }
  });
});
