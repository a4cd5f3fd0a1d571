// Slots on one route with what goes ahead of the round trip: a queue for what is over a rate, permits in hand; and a
// rate that delays beside one that takes permits.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { left, problem } from '../support/fields.js';
import { arrivals } from '../support/moments.js';
import { limit, policy, route } from '../support/policy.js';
import { useQueues } from '../support/queue.js';
import { concurrency, held, holders, open, untilHeld } from '../support/slots.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

/** @typedef {import('../support/world.js').Edge} Edge */

const world = useWorld();
const queues = useQueues();
const admin = { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } };

describe('slots beside a queue', () => {
  /** Two a day, and then into the queue; one at once. */
  const hooks = () => {
    const rate = limit('hooks', { limit: 2, key: ['global'], over_limit: { queue: 'WORK', attempts: 1 } });
    const text = policy([rate, concurrency('runs', { key: ['global'] })], [route('/hooks', ['hooks', 'runs'])]);
    return world.gateway(text, {}, {}, { queues: queues.bindings });
  };
  const hook = { method: 'POST', body: 'x' };
  /** @param {Edge} edge */
  const room = (edge) => edge.send('/.sluicegate/v1/limits/hooks/-', { method: 'DELETE', ...admin });

  test('who finds no slot is refused at once, and charged nothing', async () => {
    const edge = await hooks();
    const streams = held(world, '/hooks');
    const running = await open(edge, '/hooks', { method: 'POST' });
    const refused = await edge.send('/hooks', hook);
    assert.deepEqual(problem(refused, 429)['violated-policies'], ['runs']);
    assert.equal(left(refused, 'hooks'), 1);
    assert.equal(queues.work.sent, 0);
    streams[0].end();
    await running.whole();
    await untilHeld(world, 'runs', 0, '-');
  });

  test('who waits in the queue holds none; its delivery takes one for as long as its answer runs', async () => {
    const edge = await hooks();
    for (let sent = 0; sent < 2; sent += 1) {
      assert.equal((await edge.send('/hooks', hook)).status, 200);
      await untilHeld(world, 'runs', 0, '-');
    }
    assert.equal((await edge.send('/hooks', hook)).status, 202);
    assert.deepEqual(await holders(world, 'runs', '-'), []);
    await room(edge);
    const streams = held(world, '/hooks');
    const delivered = queues.drained(edge);
    await until(() => streams.length === 1, 'the delivery');
    assert.equal((await holders(world, 'runs', '-')).length, 1);
    assert.deepEqual(problem(await edge.send('/hooks', hook), 429)['violated-policies'], ['runs']);
    streams[0].end('done');
    await delivered;
    await untilHeld(world, 'runs', 0, '-');
  });

  test('a delivery that finds no slot waits for one, and is charged once', async () => {
    const edge = await hooks();
    for (let sent = 0; sent < 2; sent += 1) {
      assert.equal((await edge.send('/hooks', hook)).status, 200);
      await untilHeld(world, 'runs', 0, '-');
    }
    assert.equal((await edge.send('/hooks', hook)).status, 202);
    await room(edge);
    const streams = held(world, '/hooks');
    const running = await open(edge, '/hooks', { method: 'POST' });
    const decided = world.store.stats.requests;
    const delivered = queues.drained(edge);
    await until(() => world.store.stats.requests > decided + 1, 'a second try');
    assert.equal(streams.length, 1);
    streams[0].end();
    await running.whole();
    await until(() => streams.length === 2, 'the delivery');
    streams[1].end();
    await delivered;
    await untilHeld(world, 'runs', 0, '-');
    const { limits } = (await edge.check({ limits: ['hooks'], subject: {}, cost: 0 })).json();
    assert.equal(limits[0].remaining, 0, 'the one that ran and the one that waited');
  });
});

describe('slots beside permits', () => {
  const rate = { lease_batch: 4, lease_ttl: '1m', limit: 20 };
  const both = policy([limit('rate', rate), concurrency('runs')], [route('/a', ['rate', 'runs'])]);

  test('each request takes its slot in the store, and one that is refused for want of it spends no permit', async () => {
    const edge = await world.gateway(both);
    const permits = async () => (await edge.send('/.sluicegate/v1/status', admin)).json().permits;
    const streams = held(world, '/a');
    const running = await open(edge, '/a');
    assert.equal((await permits()).in_hand, 3);
    for (let sent = 0; sent < 5; sent += 1) {
      const refused = await edge.send('/a');
      assert.deepEqual(problem(refused, 429)['violated-policies'], ['runs']);
      assert.equal(left(refused, 'rate'), 19);
    }
    const { in_hand, spent } = await permits();
    assert.deepEqual([in_hand, spent], [3, 0]);
    streams[0].end();
    await running.whole();
    await untilHeld(world, 'runs', 0);
    const second = await open(edge, '/a');
    assert.equal(second.response.headers['sluicegate-tier'], 'store');
    assert.equal((await holders(world, 'runs')).length, 1);
    assert.equal((await permits()).in_hand, 2);
    streams[1].end();
    await second.whole();
    await untilHeld(world, 'runs', 0);
  });

  test('a reply that is lost is asked for again where permits cover all but slots: one slot, one permit', async () => {
    const retried = policy([limit('rate', rate), concurrency('runs', { limit: 5 })], undefined, {
      store: { retry: { budget: 1, backoff: '0s' } },
    });
    const edge = await world.gateway(retried);
    const streams = held(world, '/a');
    const first = await open(edge, '/a');
    world.store.faults.push(FAULTS.resetAfter);
    const second = await open(edge, '/a');
    assert.equal(second.response.statusCode, 200);
    assert.equal((await holders(world, 'runs')).length, 2);
    assert.equal((await edge.send('/.sluicegate/v1/status', admin)).json().permits.in_hand, 2);
    for (const stream of streams) stream.end();
    await Promise.all([first.whole(), second.whole()]);
    await untilHeld(world, 'runs', 0);
  });
});

test('a repeat under an idempotency key takes a slot of its own, where a path has two routes', async () => {
  const keyed = limit('keyed', { limit: 9, idempotency: 'header:idempotency-key' });
  const routes = [route('/{x}', ['keyed']), route('/a/b', ['runs'])];
  const edge = await world.gateway(policy([keyed, concurrency('runs')], routes));
  const streams = held(world, '/a%2Fb');
  const headers = { 'idempotency-key': 'k' };
  const running = await open(edge, '/a%2Fb', { headers });
  assert.equal((await holders(world, 'runs')).length, 1);
  assert.equal((await open(edge, '/a%2Fb', { headers })).response.statusCode, 429);
  streams[0].end();
  await running.whole();
  await untilHeld(world, 'runs', 0);
});

test('a rate that delays beside one that takes permits: each has its own of the reply', async () => {
  const delayed = { algorithm: 'token-bucket', limit: 10, window: '1s', burst: 1, over_limit: { delay: '20s' } };
  for (const names of [
    ['delayed', 'leased'],
    ['leased', 'delayed'],
  ]) {
    await world.client.flushAll();
    const limits = [limit('delayed', delayed), limit('leased', { lease_batch: 4, lease_ttl: '1m', limit: 8 })];
    const edge = await world.gateway(policy(limits, [route('/a', names)]));
    await edge.check({ limits: names, subject: { ip: '192.0.2.9' }, cost: 0 });
    const arrived = arrivals(world, '/a');
    const began = Date.now();
    world.store.stats.reset();
    await world.resetCommands();
    const counts = [];
    for (let sent = 0; sent < 8; sent += 1) {
      const reply = await edge.send('/a');
      assert.equal(reply.status, 200);
      counts.push(left(reply, 'leased'));
    }
    assert.deepEqual(counts, [7, 6, 5, 4, 3, 2, 1, 0]);
    // Each asks for its moment; only the first and the fifth ask for permits as well.
    const { set } = await world.commands();
    assert.deepEqual([world.store.stats.requests, set], [8, 8 + 2]);
    for (const [index, { at }] of arrived.entries()) {
      assert.ok(at >= began + index * 100 - 10, `${index}: ${at - began} ms`);
    }
    const refused = await edge.send('/a');
    assert.deepEqual(problem(refused, 429)['violated-policies'], ['leased']);
    assert.equal(arrived.length, 8);
  }
});
