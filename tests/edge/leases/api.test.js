// The slots API: every call, every answer, and what changes nothing.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { problem, QUOTA_EXCEEDED, REDUCED_CAPACITY } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { concurrency, held, holders, open, slots, storeClock, untilHeld } from '../support/slots.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();
const text = policy(
  [
    concurrency('jobs', { limit: 2, key: ['global'] }),
    concurrency('a', { limit: 1 }),
    concurrency('pair', { key: ['header:x-tenant', 'query:q'] }),
    limit('rate'),
    concurrency('closed', { limit: 'blocked' }),
    concurrency('any', { limit: 'unlimited', plan: 'header:x-plan', plans: { free: 1 } }),
  ],
  [route('/a', ['a'])],
);
const brief = policy([concurrency('jobs', { limit: 1, lease: '1s', key: ['global'] })], [], {
  store: { timeout: '300ms' },
});
const UNKNOWN = '{"fence":1}';

/** @param {import('../support/client.js').Reply} reply @param {number} status */
function slot(reply, status) {
  assert.equal(reply.status, status, reply.text);
  assert.equal(reply.headers['content-type'], 'application/json');
  assert.equal(reply.headers['cache-control'], 'no-store');
  const { id, fence, expires_at_ms, lease_ms, ...rest } = reply.json();
  assert.deepEqual(rest, {});
  assert.ok(Number.isSafeInteger(fence) && fence > 0);
  assert.ok(Number.isSafeInteger(expires_at_ms));
  return { id, fence, expires_at_ms, lease_ms };
}

describe('taking', () => {
  test('gives an id, a fence, and the end of the lease', async () => {
    const edge = await world.gateway(text);
    const first = slot(await slots(edge, 'jobs/-'), 201);
    assert.match(first.id, /^[A-Za-z0-9_-]{20}$/);
    assert.equal(first.lease_ms, 60_000);
    const [holder] = await holders(world, 'jobs', '-');
    assert.deepEqual(holder, { id: first.id, fence: first.fence, expires: first.expires_at_ms });
    const second = slot(await slots(edge, 'jobs/-', 'POST', { id: 'worker_7-x' }), 201);
    assert.equal(second.id, 'worker_7-x');
    assert.ok(second.fence > first.fence);
    const full = await slots(edge, 'jobs/-');
    const document = problem(full, 429);
    assert.deepEqual([document.type, document['violated-policies']], [QUOTA_EXCEEDED, ['jobs']]);
    assert.equal(Number(full.headers['retry-after']), document.retry_after);
    assert.ok(document.retry_after >= 1 && document.retry_after <= 60);
  });

  test('again by the same id: the same fence, one slot, a renewed lease', async () => {
    const edge = await world.gateway(text);
    const first = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
    await until(async () => (await storeClock(world)) > first.expires_at_ms - 60_000 + 20, 'a later moment');
    const again = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 200);
    assert.equal(again.fence, first.fence);
    assert.ok(again.expires_at_ms > first.expires_at_ms);
    assert.equal((await holders(world, 'jobs', '-')).length, 1);
  });

  for (const fault of /** @type {const} */ (['resetAfter', 'cut', 'html502'])) {
    test(`its reply lost (${fault}): asked again by the gateway, or by the caller, one slot`, async () => {
      for (const budget of [1, 0]) {
        await world.client.flushAll();
        const lost = policy([concurrency('jobs', { key: ['global'] })], [], {
          store: { retry: { budget, backoff: '0s' } },
        });
        const edge = await world.gateway(lost);
        world.store.faults.push({ ...FAULTS[fault], apply: true });
        let reply = await slots(edge, 'jobs/-', 'POST', { id: 'w' });
        if (budget === 0) {
          problem(reply, 503);
          reply = await slots(edge, 'jobs/-', 'POST', { id: 'w' });
        }
        const [holder] = await holders(world, 'jobs', '-');
        assert.deepEqual([(await holders(world, 'jobs', '-')).length, holder.fence], [1, reply.json().fence]);
      }
    });
  }

  test('shares its slots with requests', async () => {
    const edge = await world.gateway(text);
    const taken = slot(await slots(edge, 'a/192.0.2.1'), 201);
    problem(await edge.send('/a'), 429);
    assert.equal((await edge.send('/a', { ip: '192.0.2.2' })).status, 200);
    await slots(edge, `a/192.0.2.1/${taken.id}`, 'DELETE', { fence: taken.fence });
    held(world, '/a');
    await open(edge, '/a');
    problem(await slots(edge, 'a/::ffff:192.0.2.1'), 429);
  });
});

describe('a slot that is held', () => {
  test('is renewed, listed, freed', async () => {
    const edge = await world.gateway(text);
    const { id, fence, expires_at_ms } = slot(await slots(edge, 'jobs/-'), 201);
    await until(async () => (await storeClock(world)) > expires_at_ms - 60_000 + 20, 'a later moment');
    const renewed = slot(await slots(edge, `jobs/-/${id}`, 'PUT', { fence }), 200);
    assert.deepEqual([renewed.id, renewed.fence], [id, fence]);
    assert.ok(renewed.expires_at_ms > expires_at_ms);
    assert.deepEqual((await slots(edge, 'jobs/-', 'GET')).json(), {
      limit: 2,
      free: 1,
      holders: [{ id, fence, expires_at_ms: renewed.expires_at_ms }],
      waiting: [],
    });
    assert.deepEqual((await slots(edge, `jobs/-/${id}`, 'DELETE', { fence })).json(), { freed: true });
    assert.deepEqual(await holders(world, 'jobs', '-'), []);
    assert.deepEqual((await slots(edge, 'jobs/-', 'GET')).json().holders, []);
  });

  test('is paused and resumed under a higher fence', async () => {
    const edge = await world.gateway(text);
    const first = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
    const { fence } = first;
    assert.deepEqual((await slots(edge, 'jobs/-/w/pause', 'POST', { fence })).json(), { freed: true });
    assert.deepEqual((await slots(edge, 'jobs/-/w/pause', 'POST', { fence })).json(), { freed: false });
    assert.deepEqual(await holders(world, 'jobs', '-'), []);
    problem(await slots(edge, 'jobs/-/w', 'PUT', { fence }), 410);
    const resumed = slot(await slots(edge, 'jobs/-/w/resume', 'POST', { fence }), 200);
    assert.ok(resumed.fence > fence);
    assert.equal(slot(await slots(edge, 'jobs/-/w/resume', 'POST', { fence }), 200).fence, resumed.fence);
    assert.equal((await holders(world, 'jobs', '-')).length, 1);
  });

  test('is resumed only where there is room', async () => {
    const edge = await world.gateway(text);
    const { fence } = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
    await slots(edge, 'jobs/-/w/pause', 'POST', { fence });
    await slots(edge, 'jobs/-');
    await slots(edge, 'jobs/-');
    problem(await slots(edge, 'jobs/-/w/resume', 'POST', { fence }), 429);
  });
});

describe('nothing changes by', () => {
  test('a double free, and a free of what was never taken', async () => {
    const edge = await world.gateway(text);
    const first = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
    slot(await slots(edge, 'jobs/-', 'POST', { id: 'v' }), 201);
    const { fence } = first;
    const freed = [];
    for (const id of ['w', 'w', 'nobody']) {
      freed.push((await slots(edge, `jobs/-/${id}`, 'DELETE', { fence })).json().freed);
    }
    assert.deepEqual(freed, [true, false, false]);
    assert.equal((await holders(world, 'jobs', '-')).length, 1);
  });

  test('a wrong fence', async () => {
    const edge = await world.gateway(text);
    const { fence } = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
    const before = await holders(world, 'jobs', '-');
    for (const wrong of [fence - 1, fence + 1, 1]) {
      problem(await slots(edge, 'jobs/-/w', 'PUT', { fence: wrong }), 409);
      problem(await slots(edge, 'jobs/-/w', 'DELETE', { fence: wrong }), 409);
      problem(await slots(edge, 'jobs/-/w/pause', 'POST', { fence: wrong }), 409);
    }
    assert.deepEqual(await holders(world, 'jobs', '-'), before);
  });

  test('a late free or renewal: an ended lease is never revived', async () => {
    const edge = await world.gateway(brief);
    const first = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
    await untilHeld(world, 'jobs', 0, '-');
    problem(await slots(edge, 'jobs/-/w', 'PUT', { fence: first.fence }), 410);
    assert.deepEqual(await holders(world, 'jobs', '-'), []);
    const next = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
    assert.ok(next.fence > first.fence);
    problem(await slots(edge, 'jobs/-/w', 'DELETE', { fence: first.fence }), 409);
    assert.deepEqual(
      (await holders(world, 'jobs', '-')).map(({ fence }) => fence),
      [next.fence],
    );
  });

  test('a flush: fences still rise', async () => {
    const edge = await world.gateway(text);
    let last = 0;
    for (let round = 0; round < 5; round += 1) {
      const taken = slot(await slots(edge, 'jobs/-', 'POST', { id: 'w' }), 201);
      assert.ok(taken.fence > last);
      last = taken.fence;
      await world.client.flushAll();
      problem(await slots(edge, 'jobs/-/w', 'PUT', { fence: last }), 410);
    }
  });
});

describe('a call that is wrong', () => {
  test('says what is wrong', async () => {
    const edge = await world.gateway(text);
    const long = 'x'.repeat(65);
    for (const [path, method, body, status, said] of /** @type {const} */ ([
      ['nobody/-', 'POST', undefined, 404, 'no limit is named "nobody"'],
      ['rate/192.0.2.1', 'POST', undefined, 400, 'only a concurrency limit has slots'],
      ['any/192.0.2.1', 'POST', undefined, 409, 'no slot is needed'],
      ['closed/192.0.2.1', 'POST', undefined, 429, 'closed lets nothing pass'],
      ['pair/x', 'POST', undefined, 400, '1 part is written, 2 wanted'],
      ['a/localhost', 'POST', undefined, 400, 'one IPv4 or IPv6 address'],
      ['jobs/x', 'POST', undefined, 400, '`global` holds nothing'],
      ['jobs', 'POST', undefined, 404, 'no such call'],
      ['jobs/-/w/stop', 'POST', UNKNOWN, 404, 'no such call'],
      ['jobs/-/w/pause/x', 'POST', UNKNOWN, 404, 'no such call'],
      ['jobs/-', 'POST', { id: '' }, 400, 'an id is 1 to 64'],
      ['jobs/-', 'POST', { id: 'a b' }, 400, 'an id is 1 to 64'],
      ['jobs/-', 'POST', { id: long }, 400, 'an id is 1 to 64'],
      ['jobs/-', 'POST', { id: 5 }, 400, 'invalid type'],
      ['jobs/-', 'POST', { name: 'w' }, 400, 'unknown field'],
      ['jobs/-', 'POST', { fence: 5 }, 400, 'takes no fence'],
      ['jobs/-', 'POST', '{', 400, 'EOF'],
      ['jobs/-', 'POST', '["w"]', 400, 'a list where an object belongs'],
      [`jobs/-/${long}`, 'PUT', UNKNOWN, 400, 'an id is 1 to 64'],
      ['jobs/-/', 'PUT', UNKNOWN, 400, 'an id is 1 to 64'],
      ['jobs/-/w', 'PUT', undefined, 400, 'must say the fence'],
      ['jobs/-/w', 'PUT', { fence: 0 }, 400, 'must say the fence'],
      ['jobs/-/w', 'PUT', '{"fence":1.5}', 400, 'invalid type'],
      ['jobs/-/w', 'PUT', '{"fence":-1}', 400, 'invalid value'],
      ['jobs/-/w', 'PUT', { fence: 2 ** 53 }, 400, 'must say the fence'],
      ['jobs/-/w', 'DELETE', undefined, 400, 'must say the fence'],
      ['jobs/-/w', 'PUT', { fence: 1, id: 'v' }, 400, 'another one than in the path'],
      ['jobs/-?wait=5', 'POST', undefined, 400, 'not a duration'],
      ['jobs/-?wait=61s', 'POST', undefined, 400, 'at most 1m'],
      ['jobs/-/w', 'PUT', UNKNOWN, 410, 'not revived'],
    ])) {
      const document = problem(await slots(edge, path, method, body), status);
      assert.ok(document.detail.includes(said), `${method} ${path}: ${document.detail}`);
    }
    for (const [path, method, allow] of [
      ['jobs/-', 'PUT', 'GET, POST'],
      ['jobs/-/w', 'POST', 'PUT, DELETE'],
      ['jobs/-/w/pause', 'GET', 'POST'],
      ['jobs/-/w/resume', 'DELETE', 'POST'],
      ['pair/x', 'TRACE', 'GET, POST'],
    ]) {
      const reply = await slots(edge, path, method);
      problem(reply, 405);
      assert.equal(reply.headers.allow, allow);
    }
    problem(await slots(edge, 'jobs/-', 'POST', 'x'.repeat(70_000)), 413);
    assert.deepEqual(await world.keys(), []);
    assert.equal(world.origin.seen.length, 0);
  });

  test('is not answered without the token, and never forwarded', async () => {
    const edge = await world.gateway(text);
    problem(await slots(edge, 'jobs/-', 'POST', undefined, { authorization: 'Bearer nope' }), 401);
    problem(await slots(edge, 'jobs/..%2f..%2f..%2f..', 'POST', undefined, { authorization: '' }), 401);
    problem(await slots(edge, 'pair/%2e%2e,x/%2e%2e', 'GET', undefined, { authorization: '' }), 401);
    const off = await world.gateway(text, { ADMIN_TOKEN: undefined });
    problem(await slots(off, 'jobs/-'), 404);
    assert.equal(world.origin.seen.length, 0);
    assert.deepEqual(await world.keys(), []);
  });

  test('subjects are those of requests', async () => {
    const edge = await world.gateway(
      policy([concurrency('pair', { key: ['header:x-tenant', 'query:q'] })], [route('/p', ['pair'])]),
    );
    held(world, '/p');
    await open(edge, '/p?q=c%20d', { headers: { 'x-tenant': 'a,b' } });
    assert.equal((await slots(edge, 'pair/a%2Cb,c%20d', 'GET')).json().holders.length, 1);
    assert.equal((await slots(edge, 'pair/a,b%2Cc%20d', 'GET')).json().holders.length, 0);
    const key = (await world.keys()).find((name) => name.includes(':pair:c:'));
    assert.ok(!key?.includes('a,b'));
  });
});

describe('while the store fails', () => {
  for (const on_store_error of ['open', 'closed', 'degraded']) {
    test(`no slot is made up, also where requests are ${on_store_error}`, async () => {
      const edge = await world.gateway(policy([concurrency('jobs', { key: ['global'], on_store_error })], []));
      const { id, fence } = slot(await slots(edge, 'jobs/-'), 201);
      world.store.faults.always(FAULTS.resetBefore);
      for (const reply of [
        await slots(edge, 'jobs/-'),
        await slots(edge, 'jobs/-?wait=1s'),
        await slots(edge, 'jobs/-', 'GET'),
        await slots(edge, `jobs/-/${id}`, 'PUT', { fence }),
        await slots(edge, `jobs/-/${id}`, 'DELETE', { fence }),
        await slots(edge, `jobs/-/${id}/resume`, 'POST', { fence }),
      ]) {
        assert.equal(problem(reply, 503).type, REDUCED_CAPACITY);
        assert.ok(Number(reply.headers['retry-after']) >= 1);
      }
      world.store.faults.clear();
      assert.equal((await holders(world, 'jobs', '-')).length, 1);
    });
  }

  test('NOSCRIPT is no failure', async () => {
    const edge = await world.gateway(text);
    for (let round = 0; round < 2; round += 1) {
      await world.client.sendCommand(['SCRIPT', 'FLUSH']);
      slot(await slots(edge, 'jobs/-'), 201);
    }
  });
});

test('without a store the isolate’s own table serves', async () => {
  const edge = await world.gateway(text, { UPSTASH_REDIS_REST_URL: undefined });
  const { id, fence } = slot(await slots(edge, 'a/192.0.2.1'), 201);
  problem(await edge.send('/a'), 429);
  assert.equal(slot(await slots(edge, 'a/192.0.2.1', 'POST', { id }), 200).fence, fence);
  problem(await slots(edge, `a/192.0.2.1/${id}`, 'PUT', { fence: fence + 1 }), 409);
  slot(await slots(edge, `a/192.0.2.1/${id}`, 'PUT', { fence }), 200);
  const listed = (await slots(edge, 'a/192.0.2.1', 'GET')).json();
  assert.deepEqual([listed.limit, listed.free, listed.holders[0].id], [1, 0, id]);
  const waiting = slots(edge, 'a/192.0.2.1?wait=10s', 'POST', { id: 'next' });
  assert.deepEqual((await slots(edge, `a/192.0.2.1/${id}`, 'DELETE', { fence })).json(), { freed: true });
  assert.ok(slot(await waiting, 201).fence > fence);
  assert.deepEqual((await slots(edge, `a/192.0.2.1/${id}`, 'DELETE', { fence })).json(), { freed: false });
});
