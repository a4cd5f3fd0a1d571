// examples/queue.toml, driven: what its head promises is what senders and the consumer behind get.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { example } from '../support/examples.js';
import { problem } from '../support/fields.js';
import { CALM_BREAKER } from '../support/policy.js';
import { useQueues } from '../support/queue.js';
import { ADMIN_TOKEN, useWorld } from '../support/world.js';

const world = useWorld();
const queues = useQueues();

test('events that come faster than the consumer takes them wait; a source that sends too much is refused', async () => {
  const policy = example('queue');
  const store = { ...policy.store, timeout: '10s', breaker: CALM_BREAKER };
  const bound = { HOOKS: queues.work.address, HOOKS_DEAD: queues.dead.address };
  const edge = await world.gateway({ ...policy, store }, {}, {}, { queues: bound });
  const hook = (/** @type {string} */ source) => edge.send(`/hooks/${source}`, { method: 'POST', body: source });
  assert.equal((await hook('shop')).status, 200);
  // An override stands in for the flood: one a second for the consumer, and two at once.
  const admin = { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } };
  const override = { method: 'PUT', body: '{"limit":1}', ...admin };
  assert.equal((await edge.send('/.sluicegate/v1/overrides/consumer/-', override)).status, 200);
  const replies = [];
  for (let at = 0; at < 6; at += 1) replies.push(await hook('shop'));
  const waits = replies.filter(({ status }) => status === 202);
  assert.ok(waits.length > 0 && replies.every(({ status }) => status === 200 || status === 202));
  // A source that has used up its minute is refused, whether or not the consumer has room.
  const used = { limits: ['source'], subject: { 'param:source': 'bank' }, cost: 6000 };
  assert.equal((await edge.check(used)).json().allowed, true);
  assert.ok(problem(await hook('bank'), 429)['violated-policies'].includes('source'));
  assert.equal((await edge.send('/.sluicegate/v1/overrides/consumer/-', { method: 'DELETE', ...admin })).status, 200);
  await queues.drained(edge);
  assert.equal(world.origin.seen.length, 7);
  const [{ headers }] = waits;
  const { state, answer } = (await edge.send(String(headers.location))).json();
  assert.deepEqual([state, answer.status], ['done', 200]);
});
