// 500 webhooks at once through a queue, some of which the origin never takes, while the Worker is killed in the middle:
// all are delivered, no sooner than the limit lets them, and the dead letters are the poison and nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { many, statuses } from '../support/client.js';
import { limit, policy, route } from '../support/policy.js';
import { useQueues } from '../support/queue.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

/** How many; another number for a longer run. */
const COUNT = Number(process.env.SLUICEGATE_WEBHOOKS ?? 500);
const [RATE, BURST, ATTEMPTS] = [50, 10, 2];
/** Every so many'th is never taken. */
const POISON = 50;

const world = useWorld();
const queues = useQueues({ batch: 25, consumers: 2 });

test(`${COUNT} webhooks at once, with poison among them and a Worker that is killed`, async () => {
  const hooks = { algorithm: 'token-bucket', limit: RATE, window: '1s', burst: BURST, key: ['global'] };
  const over_limit = { queue: 'WORK', attempts: ATTEMPTS, backoff: '1s' };
  const text = policy([limit('hooks', { ...hooks, over_limit })], [route('/hooks', ['hooks'])]);
  const gateway = () => world.gateway(text, {}, {}, { queues: queues.bindings });
  /** @type {number[]} When each delivery came, by the origin's clock. */
  const times = [];
  const isPoison = (/** @type {string} */ body) => Number(body) % POISON === 0;
  world.origin.handlers.set('/hooks', (response, { body }) => {
    times.push(performance.now());
    response.writeHead(isPoison(body) ? 500 : 200).end();
  });
  const edge = await gateway();
  const began = performance.now();
  const replies = await many(COUNT, (index) => edge.send('/hooks', { method: 'POST', body: `${index}` }), 100);
  const counts = statuses(replies);
  const queued = replies.flatMap((reply, index) => (reply.status === 202 ? [{ index, id: reply.json().id }] : []));
  assert.equal(
    Object.values(counts).reduce((sum, count) => sum + count),
    COUNT,
  );
  // What passed at once got the origin's own answer.
  for (const [index, { status }] of replies.entries()) {
    assert.ok(status === 202 || status === (isPoison(`${index}`) ? 500 : 200), `${index}: ${status}`);
  }
  assert.ok(queued.length > COUNT / 4, `${queued.length} wait`);

  queues.consumer = edge;
  const direct = COUNT - queued.length;
  await until(() => times.length >= direct + queued.length / 3, 'a third of them to be delivered', 60_000);
  assert.ok(queues.work.taken.length > 0, 'some are in hand');
  await edge.stop();
  const next = await gateway();
  await queues.drained(next, 120_000);

  const late = world.origin.seen.filter(({ headers }) => headers['idempotency-key'] !== undefined);
  const deliveries = Map.groupBy(late, ({ headers }) => String(headers['idempotency-key']));
  assert.deepEqual(
    [...deliveries.keys()].sort(),
    queued.map(({ id }) => id).sort(),
    'each at least once, and no other',
  );
  for (const { index, id } of queued) {
    const bodies = new Set(deliveries.get(id)?.map(({ body }) => body));
    assert.deepEqual([...bodies], [`${index}`], 'a key is that of one request');
  }
  const poison = queued.filter(({ index }) => isPoison(`${index}`)).map(({ id }) => id);
  assert.ok(poison.length > 0);
  const dead = queues.dead.ready.map(({ body }) => body.id);
  assert.deepEqual([...new Set(dead)].sort(), poison.sort(), 'the dead letters are the poison');
  for (const id of poison) assert.ok((deliveries.get(id)?.length ?? 0) >= ATTEMPTS);
  const twice = [...deliveries].filter(([id, of]) => of.length > 1 && !poison.includes(id));
  // The kill was in the middle of no more than two batches.
  assert.ok(twice.length <= 50, `${twice.length} were delivered twice`);

  // Each delivery was charged: they took as long as the limit needs for them, and no part of them was quicker.
  const took = times[times.length - 1] - began;
  assert.ok(took >= ((times.length - BURST) / RATE) * 1000, `${times.length} in ${took} ms`);
  assert.equal(times.length, world.origin.seen.length);

  const authorization = `Bearer ${ADMIN_TOKEN}`;
  const { tasks } = (await next.send('/.sluicegate/v1/status', { headers: { authorization } })).json();
  const [{ depth, in_hand, dead_letters }] = tasks.queues;
  assert.deepEqual([depth, in_hand, dead_letters], [0, 0, dead.length]);
  for (const { index, id } of queued) {
    const { state } = (await next.send(`/.sluicegate/v1/tasks/${id}`)).json();
    assert.equal(state, isPoison(`${index}`) ? 'dead' : 'done', String(index));
  }
});
