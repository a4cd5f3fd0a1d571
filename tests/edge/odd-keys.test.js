// Keys that arrive as no key should: empty, in bytes that are no UTF-8, or very long.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { left, problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

/** @typedef {import('./support/client.js').Sent} Sent */

const world = useWorld();

/** Most bytes of a header or cookie that a key takes. */
const LONGEST = 8192;

/** For each kind of part: a request that holds this text in it, and bytes that are no UTF-8. */
const KINDS = /** @type {const} */ ([
  ['header:x-key', (/** @type {string} */ text) => ['/a', { headers: { 'x-key': text } }], ['caf\xe9', 'caf\xe8']],
  [
    'cookie:key',
    (/** @type {string} */ text) => ['/a', { headers: { cookie: `b=1; key=${text}` } }],
    ['caf\xe9', 'caf\xe8'],
  ],
  ['query:key', (/** @type {string} */ text) => [`/a?b=1&key=${text}`, {}], ['caf%e9', 'caf%E8']],
  ['param:key', (/** @type {string} */ text) => [`/of/${text}`, {}], ['caf%e9', 'caf%E8']],
]);

/** @param {string} part @param {Record<string, unknown>} [fields] */
const by = (part, fields = {}) => {
  const limits = [limit('a', { limit: 9, key: [part], ...fields })];
  return world.gateway(policy(limits, [route(part.startsWith('param:') ? '/of/{key}' : '/a', ['a'])]));
};

for (const [part, holding, [one, other]] of KINDS) {
  const sent = (/** @type {string} */ text) => /** @type {[string, Sent]} */ (holding(text));
  const inUrl = part.startsWith('query:') || part.startsWith('param:');

  describe(part, () => {
    if (part !== 'param:key') {
      test('empty: as if it were not there', async () => {
        const denying = await by(part);
        for (const text of inUrl ? ['', '%20', '+'] : ['', ' ']) {
          assert.match(problem(await denying.send(...sent(text)), 400).detail, new RegExp(part));
        }
        const sharing = await by(part, { on_missing_key: 'share' });
        assert.equal(left(await sharing.send('/a'), 'a'), 8);
        assert.equal(left(await sharing.send(...sent('')), 'a'), 7);
      });
    }

    if (inUrl) {
      test('not UTF-8: each is a subject of its own', async () => {
        const edge = await by(part);
        assert.equal(left(await edge.send(...sent(one)), 'a'), 8);
        assert.equal(left(await edge.send(...sent(one.toUpperCase().replace('CAF', 'caf'))), 'a'), 7);
        for (const text of [other, 'caf%C3%A9', 'caf%EF%BF%BD', 'caf%EF%BF%BDE9']) {
          assert.equal(left(await edge.send(...sent(text)), 'a'), 8, text);
        }
      });
    } else {
      test('not UTF-8: cannot be told from others, so it goes by on_missing_key', async () => {
        const denying = await by(part);
        for (const text of [one, other, '\xef\xbf\xbd']) {
          assert.match(problem(await denying.send(...sent(text)), 400).detail, new RegExp(part));
        }
        assert.equal((await denying.send(...sent('caf\xc3\xa9'))).status, 200, 'UTF-8 is fine');
        const skipping = await by(part, { on_missing_key: 'skip' });
        assert.equal((await skipping.send(...sent(one))).headers.ratelimit, undefined);
      });
    }

    test('10 KB', async () => {
      const edge = await by(part);
      const [long, twin] = ['y', 'z'].map((end) => 'x'.repeat(10_239) + end);
      if (inUrl) {
        assert.equal(left(await edge.send(...sent(long)), 'a'), 8);
        assert.equal(left(await edge.send(...sent(long)), 'a'), 7);
        assert.equal(left(await edge.send(...sent(twin)), 'a'), 8, 'what is alike at first is not one subject');
        const [key] = await world.keys();
        assert.match(key, /:[\w-]{20}$/);
      } else {
        for (const text of [long, twin, 'x'.repeat(LONGEST + 1)]) {
          const { detail } = problem(await edge.send(...sent(text)), 431);
          assert.equal(detail, `${part} is longer than 8192 bytes`);
        }
        assert.equal(world.store.stats.requests, 0);
        assert.equal(left(await edge.send(...sent('x'.repeat(LONGEST))), 'a'), 8);
        assert.equal(left(await edge.send(...sent(`${'x'.repeat(LONGEST - 1)}y`)), 'a'), 8);
      }
    });
  });
}

test('a short cookie among long ones is taken', async () => {
  const edge = await by('cookie:key');
  const cookie = `other=${'x'.repeat(20_000)}; key=k`;
  assert.equal(left(await edge.send('/a', { headers: { cookie } }), 'a'), 8);
  assert.equal(left(await edge.send('/a', { headers: { cookie: 'key=k' } }), 'a'), 7);
});

test('an idempotency key: too long is 431; one that cannot be read is none', async () => {
  const fields = { limit: 9, idempotency: 'header:idempotency-key' };
  const edge = await world.gateway(policy([limit('a', fields)]));
  const send = (/** @type {string} */ key) => edge.send('/a', { headers: { 'idempotency-key': key } });
  problem(await send('x'.repeat(LONGEST + 1)), 431);
  assert.deepEqual([left(await send('k'), 'a'), left(await send('k'), 'a')], [8, 8]);
  assert.deepEqual([left(await send('k\xff'), 'a'), left(await send('k\xff'), 'a')], [7, 6]);
});

test('a plan and a cost of any length: an unknown plan, a bad cost', async () => {
  const fields = { limit: 9, plan: 'header:x-plan', plans: { pro: 99 }, cost: { header: 'x-cost', max: 5 } };
  const edge = await world.gateway(policy([limit('a', fields)]));
  assert.equal(left(await edge.send('/a', { headers: { 'x-plan': 'p'.repeat(10_240) } }), 'a'), 8);
  problem(await edge.send('/a', { headers: { 'x-cost': '1'.repeat(10_240) } }), 400);
});

test('a value that exempts is not met by bytes that only read like it', async () => {
  const exempt = { 'header:x-key': 'binding:EXEMPT' };
  const edge = await world.gateway(policy([limit('a', { exempt })]), { EXEMPT: 'k\ufffd' });
  assert.equal(left(await edge.send('/a', { headers: { 'x-key': 'k\xff' } }), 'a'), 2);
});
