// The middle tier: the platform's own limiter, asked after the store and before the isolate's table.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses, tiers } from '../support/client.js';
import { problem, REDUCED_CAPACITY } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { useWorld } from '../support/world.js';

const world = useWorld();

/** A stand-in for Cloudflare's binding, which raw workerd does not have: what it does goes by the subject. */
const LIMITER = `
const counts = new Map();
const answers = {
  '192.0.2.1': async () => ({ success: true }),
  '192.0.2.2': async () => ({ success: false }),
  '192.0.2.3': async () => { throw new Error('private-limiter-text'); },
  '192.0.2.4': () => { throw new Error('private-limiter-text'); },
  '192.0.2.5': () => new Promise(() => {}),
  '192.0.2.6': () => new Promise((resolve) => setTimeout(() => resolve({ success: true }), 5000)),
  '192.0.2.7': async () => undefined,
  // Two for each key.
  '192.0.2.8': async (key) => {
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return { success: counts.get(key) <= 2 };
  },
};
export default () => ({
  limit({ key }) {
    console.log(JSON.stringify({ event: 'asked', key }));
    return answers[key.slice(key.lastIndexOf(':') + 1)](key);
  },
});
`;

const KINDS = ['open', 'closed', 'degraded'];

/** Twenty a day, of which an isolate grants two. */
const LIMITS = [
  ...KINDS.map((kind) => limit(kind, { limit: 20, on_store_error: kind })),
  limit('second', { limit: 20, on_store_error: 'degraded' }),
  limit('shadow', { limit: 20, on_store_error: 'degraded', shadow: true }),
];
const ROUTES = [
  ...KINDS.map((kind) => route(`/${kind}`, [kind])),
  route('/both', ['degraded', 'second']),
  route('/all', KINDS),
  route('/shadow', ['shadow']),
];

/** @param {string} [binding] @param {object} [options] @param {object} [vars] */
const gateway = (binding = 'LIMITER', options = { wrapped: { LIMITER } }, vars = {}) => {
  const sections = { degraded: { binding }, store: { timeout: '200ms', remember: '0s', retry: { budget: 0 } } };
  world.store.faults.always(FAULTS.resetBefore);
  return world.gateway(policy(LIMITS, ROUTES, sections), { ...vars }, {}, options);
};

/** @param {import('../support/world.js').Edge} edge */
const keysAsked = (edge) => edge.log().flatMap(({ event, key }) => (event === 'asked' ? [key] : []));

describe('a limiter that answers', () => {
  test('lets through: 200, tier degraded, however much the isolate’s share is', async () => {
    const edge = await gateway();
    const replies = await many(10, () => edge.send('/degraded', { ip: '192.0.2.1' }), 1);
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 10 }, { degraded: 10 }]);
    await edge.logged('asked');
  });

  test('refuses: 429 with Retry-After, reduced capacity', async () => {
    const edge = await gateway();
    const reply = await edge.send('/degraded', { ip: '192.0.2.2' });
    const document = problem(reply, 429);
    assert.deepEqual([document.type, document['violated-policies']], [REDUCED_CAPACITY, ['degraded']]);
    assert.deepEqual([reply.headers['retry-after'], reply.headers['sluicegate-tier']], ['10', 'degraded']);
    assert.equal(world.origin.seen.length, 0);
    const { allowed, tier } = (await edge.check({ limits: ['degraded'], subject: { ip: '192.0.2.2' } })).json();
    assert.deepEqual([allowed, tier], [false, 'degraded']);
  });

  test('is asked once for each degraded limit, by limit and subject, and not beyond a refusal', async () => {
    const edge = await gateway();
    const replies = await many(4, () => edge.send('/both', { ip: '192.0.2.8' }), 1);
    assert.deepEqual(statuses(replies), { 200: 2, 429: 2 });
    await edge.logged('asked', 6);
    const names = keysAsked(edge).map((key) => /^sg:1:([a-z]+):f(1d|17h):192\.0\.2\.8$/.exec(key)?.[1]);
    assert.deepEqual(names, ['degraded', 'second', 'degraded', 'second', 'degraded', 'degraded']);
  });

  test('is not asked while the store answers, nor where `open` or `closed` decides', async () => {
    const edge = await gateway();
    assert.equal((await edge.send('/open', { ip: '192.0.2.2' })).headers['sluicegate-tier'], 'open');
    problem(await edge.send('/closed', { ip: '192.0.2.2' }), 503);
    problem(await edge.send('/all', { ip: '192.0.2.2' }), 503);
    world.store.faults.clear();
    assert.equal((await edge.send('/degraded', { ip: '192.0.2.2' })).headers['sluicegate-tier'], 'store');
    problem(await edge.send('/closed', { ip: '' }), 400);
    assert.deepEqual(keysAsked(edge), []);
  });

  test('a refusal for a limit in shadow refuses nobody', async () => {
    const edge = await gateway();
    const replies = await many(4, () => edge.send('/shadow', { ip: '192.0.2.2' }));
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 4 }, { degraded: 4 }]);
  });
});

describe('a limiter that does not answer: the isolate’s share decides', () => {
  /** @param {import('../support/world.js').Edge} edge @param {string} ip */
  async function byTable(edge, ip) {
    const replies = await many(4, () => edge.send('/degraded', { ip }));
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 2, 429: 2 }, { degraded: 4 }]);
    for (const reply of replies) if (reply.status === 429) assert.equal(problem(reply, 429).type, REDUCED_CAPACITY);
    assert.doesNotMatch(edge.logText() + JSON.stringify(replies), /private-/);
    assert.doesNotMatch(edge.logText(), /uncaught|unhandled|"fault"/i);
  }

  for (const [what, ip] of [
    ['rejects', '192.0.2.3'],
    ['throws', '192.0.2.4'],
    ['never answers', '192.0.2.5'],
    ['answers after the deadline', '192.0.2.6'],
    ['answers something else', '192.0.2.7'],
  ]) {
    test(what, { timeout: 30_000 }, async () => byTable(await gateway(), ip));
  }

  test('is not there', async () => byTable(await gateway('MISSING'), '192.0.2.1'));

  test('is no limiter', async () => {
    await byTable(await gateway('ODD', {}, { ODD: 'a text' }), '192.0.2.1');
    await byTable(await gateway('ODD', {}, { ODD: { limit: 5 } }), '192.0.2.1');
  });

  test('never answers for two limits: one deadline for both', { timeout: 30_000 }, async () => {
    const edge = await gateway();
    const began = performance.now();
    const replies = await many(4, () => edge.send('/both', { ip: '192.0.2.5' }));
    assert.deepEqual(statuses(replies), { 200: 2, 429: 2 });
    assert.ok(performance.now() - began < 2000);
  });
});
