// Whatever the store says, the client gets a decision: each thing a store has been seen to answer.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { statuses, tiers } from './support/client.js';
import { left } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { until, useWorld } from './support/world.js';

const world = useWorld();

/** @type {[string, import('../../dev/store/faults.js').Fault][]} */
const answers = [
  ...['loading', 'busy', 'tryAgain', 'clusterDown', 'masterDown', 'readOnly'].map(named),
  ...['unauthorized', 'noPerm', 'requestsExceeded', 'suspended', 'oom', 'capacity', 'misconf'].map(named),
  ...['wrongType', 'scriptError', 'shebangRefused', 'dynamicKey'].map(named),
  ...['html502', 'html503', 'html200', 'internal500', 'empty503', 'empty200', 'notJson', 'cutJson'].map(named),
  ...['nullBody', 'noResult', 'nullResult', 'textResult', 'emptyResult', 'floats'].map(named),
  ...['duplicateKeys', 'both', 'bareArray', 'resetBefore', 'resetAfter', 'cut'].map(named),
  ['tooManyRequests', FAULTS.tooManyRequests(7)],
  ['huge', FAULTS.huge()],
  ['a decision of another arity', FAULTS.reply({ body: '{"result":[1,3,2,1000,0,3,2,1000,0]}' })],
  ['a decision with a 500', FAULTS.reply({ status: 500, body: '{"result":[1,3,2,1000,0]}' })],
  ['numbers below zero', FAULTS.reply({ body: '{"result":[1,3,-2,1000,0]}' })],
];

/** @param {string} name @returns {[string, import('../../dev/store/faults.js').Fault]} */
function named(name) {
  return [name, /** @type {any} */ (FAULTS)[name]];
}

describe('never a 5xx because of the store, except closed', () => {
  // FIELD-REPORTS B40.
  test('each answer, each policy', async () => {
    const kinds = /** @type {const} */ (['open', 'closed', 'degraded']);
    const edge = await world.gateway(
      policy(
        kinds.map((kind) => limit(kind, { limit: 1000, on_store_error: kind })),
        kinds.map((kind) => route(`/${kind}`, [kind])),
      ),
    );
    for (const [name, fault] of answers) {
      world.store.faults.clear();
      world.store.faults.always(fault);
      const replies = await Promise.all(kinds.map((kind) => edge.send(`/${kind}`)));
      assert.deepEqual(tiers(replies), { open: 1, closed: 1, degraded: 1 }, name);
      assert.deepEqual(statuses(replies), { 200: 2, 503: 1 }, name);
    }
    world.store.faults.clear();
    // What was said last keeps the breaker open for a moment.
    await until(async () => (await edge.send('/open')).headers['sluicegate-tier'] === 'store', 'the store to be asked');
  });
});

describe('a redirect of the store’s', () => {
  for (const status of [301, 302, 307, 308]) {
    test(`${status} is not followed`, async () => {
      const edge = await world.gateway(policy([limit('a', { on_store_error: 'open' })]));
      world.store.faults.always(FAULTS.redirect(`${world.origin.url}/elsewhere`, status));
      const reply = await edge.send('/a');
      assert.deepEqual([reply.status, reply.headers['sluicegate-tier']], [200, 'open']);
      assert.equal(world.store.stats.requests, 1);
      assert.deepEqual(
        world.origin.seen.map(({ path }) => path),
        ['/a'],
      );
    });
  }
});

test('overlapping requests each get a call and a decision of their own', async () => {
  const edge = await world.gateway(policy([limit('a', { limit: 10 })]));
  await edge.send('/a');
  world.store.stats.reset();
  world.store.faults.push(FAULTS.delay(50), 2);
  const both = await Promise.all([edge.send('/a'), edge.send('/a')]);
  assert.equal(world.store.stats.requests, 2);
  assert.deepEqual(both.map((reply) => left(reply, 'a')).toSorted(), [7, 8]);
});

test('clients that leave while the store is asked leave nothing behind', async () => {
  const { request } = await import('node:http');
  const edge = await world.gateway(policy([limit('a', { limit: 10 })]));
  world.store.faults.push(FAULTS.delay(50), 5);
  for (let index = 0; index < 5; index += 1) {
    const asked = world.store.stats.requests;
    const outgoing = request(`${edge.url}/a`, { headers: { 'cf-connecting-ip': '192.0.2.1' } });
    outgoing.on('error', () => {});
    outgoing.end();
    while (world.store.stats.requests === asked) await new Promise(setImmediate);
    outgoing.destroy();
  }
  const reply = await edge.send('/a');
  assert.deepEqual([reply.status, reply.headers['sluicegate-tier']], [200, 'store']);
});
