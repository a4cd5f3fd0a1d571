// Waiting for a slot: in order, for a bounded time, in a bounded queue, past heads that are dead.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { problem } from '../support/fields.js';
import { policy } from '../support/policy.js';
import { concurrency, holders, slots, untilHeld } from '../support/slots.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

const world = useWorld();
const one = policy([concurrency('jobs', { key: ['global'] })], [], { store: { timeout: '2s' } });
/** A place is soon lost. */
const hasty = policy([concurrency('jobs', { key: ['global'] })], [], { store: { timeout: '600ms' } });

/** @param {import('../support/world.js').Edge} edge @returns {Promise<{ id: string, place: number }[]>} */
const waiting = async (edge) => (await slots(edge, 'jobs/-', 'GET')).json().waiting;

/** @param {import('../support/world.js').Edge} edge @param {import('../support/client.js').Reply} reply */
async function free(edge, reply) {
  const { id, fence } = reply.json();
  assert.deepEqual((await slots(edge, `jobs/-/${id}`, 'DELETE', { fence })).json(), { freed: true });
}

describe('a caller that waits', () => {
  test('gets the slot when it is free', async () => {
    const edge = await world.gateway(one);
    const first = await slots(edge, 'jobs/-');
    const second = slots(edge, 'jobs/-?wait=30s', 'POST', { id: 'second' });
    await until(async () => (await waiting(edge)).length === 1, 'somebody in the queue');
    assert.deepEqual(await waiting(edge), [{ id: 'second', place: 1 }]);
    await free(edge, first);
    const taken = await second;
    assert.equal(taken.status, 201);
    assert.ok(taken.json().fence > first.json().fence);
    assert.deepEqual(await waiting(edge), []);
  });

  test('is refused when its wait is over, and has left the queue', async () => {
    const edge = await world.gateway(one);
    await slots(edge, 'jobs/-');
    const began = performance.now();
    const reply = await slots(edge, 'jobs/-?wait=600ms', 'POST', { id: 'late' });
    problem(reply, 429);
    assert.ok(performance.now() - began >= 600, 'it waited');
    assert.deepEqual(await waiting(edge), []);
    assert.equal((await holders(world, 'jobs', '-')).length, 1);
  });

  test('does not wait for wait=0s, nor where it is banned', async () => {
    const edge = await world.gateway(one);
    await slots(edge, 'jobs/-');
    problem(await slots(edge, 'jobs/-?wait=0s'), 429);
    const override = 'sg:1:jobs:override-instead-of-the-policy-s-limit:-';
    await world.client.set(override, '0 0');
    const banned = await slots(edge, 'jobs/-?wait=60s');
    assert.equal(problem(banned, 429).detail, 'jobs lets nothing pass.');
    assert.equal(banned.headers['retry-after'], undefined);
  });

  test('resumes in the queue', async () => {
    const edge = await world.gateway(one);
    const { fence } = (await slots(edge, 'jobs/-', 'POST', { id: 'w' })).json();
    await slots(edge, 'jobs/-/w/pause', 'POST', { fence });
    const other = await slots(edge, 'jobs/-');
    const resuming = slots(edge, 'jobs/-/w/resume?wait=30s', 'POST', { fence });
    await until(async () => (await waiting(edge)).length === 1, 'somebody in the queue');
    await free(edge, other);
    const resumed = await resuming;
    assert.equal(resumed.status, 200);
    assert.ok(resumed.json().fence > other.json().fence);
  });

  test('is not overtaken by one that does not wait', async () => {
    const edge = await world.gateway(one);
    const first = await slots(edge, 'jobs/-');
    const second = slots(edge, 'jobs/-?wait=30s', 'POST', { id: 'second' });
    await until(async () => (await waiting(edge)).length === 1, 'somebody in the queue');
    await free(edge, first);
    // Until `second` asks again the slot is free, and kept for it.
    const impatient = await slots(edge, 'jobs/-', 'POST', { id: 'impatient' });
    const taken = await second;
    assert.equal(taken.status, 201);
    assert.equal(impatient.status, 429);
  });
});

describe('a waiter whose client goes', () => {
  /** A lease ends within the test. */
  const text = policy([concurrency('jobs', { lease: '2s', key: ['global'] })], [], { store: { timeout: '600ms' } });

  for (const [how, go] of /** @type {const} */ ([
    [
      'its connection broken',
      (/** @type {import('node:http').ClientRequest} */ sent) => sent.socket?.resetAndDestroy(),
    ],
    ['in good order', (/** @type {import('node:http').ClientRequest} */ sent) => sent.destroy()],
  ])) {
    test(`${how}: holds up the next for no longer than its place or a lease`, async () => {
      const edge = await world.gateway(text);
      const first = (await slots(edge, 'jobs/-')).json();
      const outgoing = request(`${edge.url}/.sluicegate/v1/slots/jobs/-?wait=60s`, {
        method: 'POST',
        agent: false,
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      outgoing.on('error', () => {});
      outgoing.end(JSON.stringify({ id: 'gone' }));
      await until(async () => (await waiting(edge)).length === 1, 'somebody in the queue');
      go(outgoing);
      await slots(edge, `jobs/-/${first.id}`, 'DELETE', { fence: first.fence });
      const living = await slots(edge, 'jobs/-?wait=30s', 'POST', { id: 'living' });
      assert.equal(living.status, 201);
      assert.deepEqual(await waiting(edge), []);
    });
  }
});

describe('a hundred callers', () => {
  test('take one slot after the other in the order they came, through two gateways', async () => {
    const edges = await Promise.all([world.gateway(one), world.gateway(one)]);
    const first = await slots(edges[0], 'jobs/-');
    /** @type {string[]} */
    const order = [];
    /** @type {string[]} */
    const came = [];
    const all = [];
    let most = 0;
    for (let n = 0; n < 100; n += 1) {
      const id = `w${n}`;
      const edge = edges[n % 2];
      const calling = slots(edge, 'jobs/-?wait=60s', 'POST', { id }).then(async (reply) => {
        assert.equal(reply.status, 201, reply.text);
        order.push(id);
        most = Math.max(most, (await holders(world, 'jobs', '-')).length);
        await free(edge, reply);
      });
      all.push(calling);
      await until(() => world.client.zScore('sg:1:jobs:queue:-', id), `${id} in the queue`);
      came.push(id);
    }
    await free(edges[0], first);
    await Promise.all(all);
    assert.deepEqual(order, came);
    assert.equal(most, 1);
    assert.deepEqual(await waiting(edges[0]), []);
  });

  test('whose heads are dead hold nobody up for long', async () => {
    const edge = await world.gateway(hasty);
    const first = await slots(edge, 'jobs/-');
    const dying = await world.gateway(hasty);
    const dead = Array.from({ length: 10 }, (_, n) => {
      const outgoing = request(`${dying.url}/.sluicegate/v1/slots/jobs/-?wait=60s`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      outgoing.on('error', () => {});
      outgoing.end(JSON.stringify({ id: `dead${n}` }));
      return outgoing;
    });
    await until(async () => (await waiting(edge)).length === 10, 'the dead in the queue');
    const living = slots(edge, 'jobs/-?wait=60s', 'POST', { id: 'living' });
    await until(async () => (await waiting(edge)).length === 11, 'all in the queue');
    for (const outgoing of dead) outgoing.destroy();
    process.kill(dying.pid, 'SIGKILL');
    await free(edge, first);
    assert.equal((await living).status, 201);
    assert.deepEqual(
      (await holders(world, 'jobs', '-')).map(({ id }) => id),
      ['living'],
    );
  });
});

test('the queue is bounded', async () => {
  const edge = await world.gateway(one);
  await slots(edge, 'jobs/-');
  const soon = Date.now() + 600_000;
  const places = Array.from({ length: 1000 }, (_, n) => [
    { score: soon, value: `w${n}` },
    { score: soon * 1024 + n, value: `:w${n}` },
  ]);
  await world.client.zAdd('sg:1:jobs:queue:-', places.flat());
  const reply = await slots(edge, 'jobs/-?wait=30s');
  assert.match(problem(reply, 429).detail, /no more may wait/);
});

test('a store that fails for a moment does not end the wait', async () => {
  const edge = await world.gateway(one);
  const first = await slots(edge, 'jobs/-');
  const waits = slots(edge, 'jobs/-?wait=30s', 'POST', { id: 'w' });
  await until(async () => (await waiting(edge)).length === 1, 'somebody in the queue');
  world.store.faults.always(FAULTS.internal500);
  await edge.logged('store-failing');
  world.store.faults.clear();
  await free(edge, first);
  assert.equal((await waits).status, 201);
  await untilHeld(world, 'jobs', 1, '-');
});
