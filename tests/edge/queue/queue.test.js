// Requests over their limit wait in a queue: 202 at once, delivered at the rate of the limit, and never lost.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses } from '../support/client.js';
import { problem, rateLimit } from '../support/fields.js';
import { DAY, limit, policy, route } from '../support/policy.js';
import { useQueues } from '../support/queue.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();
const queues = useQueues();

const WAITS = { over_limit: { queue: 'WORK', backoff: '1s', attempts: 3 } };
/** A bucket that is full again in a moment: 50 a second, 5 at once. */
const FAST = { algorithm: 'token-bucket', limit: 50, window: '1s', burst: 5, key: ['global'], ...WAITS };

/** @param {Record<string, unknown>} [fields] @param {Record<string, unknown>} [vars] @param {any[]} [more] */
const gateway = (fields = FAST, vars = {}, more = []) =>
  world.gateway(
    policy([limit('hooks', fields), ...more], [route('/hooks', ['hooks', ...more.map(({ name }) => name)])]),
    vars,
    {},
    { queues: queues.bindings },
  );
/** @param {number} index @param {Record<string, string>} [headers] */
const hook = (index, headers = {}) => ({ method: 'POST', body: `{"event":${index}}`, headers });

test('what is over the limit is accepted, and delivered as it was sent', async () => {
  const edge = await gateway({ ...FAST, limit: 3, burst: 3 });
  const replies = await many(5, (index) =>
    edge.send('/hooks?a=%7B1', hook(index, { 'x-source': 'shop', authorization: 'Bearer t', connection: 'x-hop', 'x-hop': '1' })),
  );
  assert.deepEqual(statuses(replies), { 200: 3, 202: 2 });
  const accepted = replies.filter(({ status }) => status === 202);
  for (const { headers, json } of accepted) {
    const { id, status_url, state } = json();
    assert.match(id, /^[\w-]{24}$/);
    assert.equal(state, 'queued');
    assert.equal(headers.location, `/.sluicegate/v1/tasks/${id}`);
    assert.equal(status_url, `${edge.url}/.sluicegate/v1/tasks/${id}`);
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['content-type'], 'application/json');
    assert.ok(Number(headers['retry-after']) >= 1);
    const status = (await edge.send(String(headers.location))).json();
    assert.deepEqual([status.id, status.state, status.failed_attempts], [id, 'queued', 0]);
  }
  assert.equal(queues.work.depth, 2);
  await queues.drained(edge);
  assert.equal(world.origin.seen.length, 5);
  const late = world.origin.seen.slice(3);
  for (const { method, path, headers } of late) {
    assert.deepEqual([method, path], ['POST', '/hooks?a=%7B1']);
    assert.deepEqual([headers['x-source'], headers.authorization, headers['x-hop']], ['shop', 'Bearer t', undefined]);
  }
  assert.deepEqual(
    late.map(({ headers }) => headers['idempotency-key']).sort(),
    accepted.map(({ json }) => json().id).sort(),
  );
  const status = (await edge.send(String(accepted[0].headers.location))).json();
  assert.equal(status.state, 'done');
  assert.deepEqual([status.answer.status, status.answer.body], [200, 'origin']);
});
