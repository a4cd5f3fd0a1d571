// What holds of a request that waits for its moment, and of those that may not.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { before, describe, test } from 'node:test';
import { problem, QUOTA_EXCEEDED, rateLimit, rateLimitPolicy } from '../support/fields.js';
import { arrivals, delaying } from '../support/moments.js';
import { policy, route } from '../support/policy.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

const world = useWorld();

/** @typedef {import('../support/world.js').Edge} Edge */

/** @param {Edge} edge @returns {Promise<{ waiting: number, held: number, full: number }>} */
async function delayed(edge) {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
  return (await edge.send('/.sluicegate/v1/status', { headers })).json().delayed;
}

/** Waits until so many wait. @param {Edge} edge @param {number} count */
const untilWaiting = (edge, count) =>
  until(async () => (await delayed(edge)).waiting === count, `${count} requests to wait`);

/** One at once, then one every so often. @param {string} window @param {string} delay @param {object} [over] */
const one = (window, delay, over = {}) =>
  delaying({ limit: 1, window, over_limit: { delay, ...over }, key: ['global'] });

/** For how long those before a request are held, in ms, charging nothing. @param {Edge} edge */
const queue = async (edge) => (await edge.check({ limits: ['rate'], subject: {}, cost: 0 })).json().delay_ms ?? 0;

const everything = (/** @type {Record<string, unknown>} */ limit, /** @type {any} */ sections = {}) =>
  policy([limit], [route('/{*rest}', ['rate'])], sections);

describe('a request that waits', () => {
  for (const method of ['HEAD', 'POST', 'DELETE']) {
    test(`by ${method} goes on as it was sent`, async () => {
      const edge = await world.gateway(everything(one('300ms', '5s')));
      const arrived = arrivals(world, '/x');
      await edge.send('/x');
      const body = method === 'POST' ? 'x'.repeat(200_000) : undefined;
      const reply = await edge.send('/x?a=%20+b', { method, body, headers: { 'x-own': 'kept' } });
      assert.equal(reply.status, 200);
      const seen = world.origin.seen[1];
      assert.deepEqual([seen.method, seen.path, seen.headers['x-own']], [method, '/x?a=%20+b', 'kept']);
      assert.equal(seen.body, body ?? '');
      assert.equal(arrived.length, 2);
      assert.deepEqual(rateLimit(reply).rate, { r: 0, t: 1 });
      assert.deepEqual(rateLimitPolicy(reply).rate, { q: 1 });
    });
  }

  test('whose client leaves is not sent on; what it reserved is spent', async () => {
    const edge = await world.gateway(everything(one('2s', '20s')));
    const arrived = arrivals(world, '/x');
    const began = Date.now();
    await edge.send('/x');
    const leaving = request(`${edge.url}/x?leaves`, { headers: { 'cf-connecting-ip': '192.0.2.1' } });
    leaving.on('error', () => {});
    leaving.end();
    await untilWaiting(edge, 1);
    leaving.socket?.resetAndDestroy();
    // It comes behind the one that has left: two moments after the first.
    const before = await queue(edge);
    const last = await edge.send('/x?last');
    assert.equal(last.status, 200);
    assert.ok(before > 0 && before <= 2000, `${before}`);
    assert.deepEqual(
      world.origin.seen.map(({ path }) => path),
      ['/x', '/x?last'],
    );
    // The gateway's clock may be a few milliseconds behind this one's.
    assert.ok(arrived[1].at - began >= 3990, `${arrived[1].at - began} ms`);
    assert.equal((await delayed(edge)).waiting, 0);
  });

  test('counts as one that waits until its moment, and then no more', async () => {
    const edge = await world.gateway(everything(one('2s', '10s')));
    await edge.send('/x');
    const second = edge.send('/x');
    await untilWaiting(edge, 1);
    assert.equal((await second).status, 200);
    assert.deepEqual(await delayed(edge), { waiting: 0, held: 1, full: 0 });
    const metrics = await edge.send('/.sluicegate/v1/metrics', { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
    assert.match(metrics.text, /^sluicegate_waiting_requests 0$/m);
    assert.match(metrics.text, /^sluicegate_held_requests_total 1$/m);
    assert.match(metrics.text, /^sluicegate_waiting_full_total 0$/m);
  });
});

describe('a WebSocket', () => {
  /** @type {number[]} */
  const shaken = [];
  before(() => {
    world.origin.server.on('upgrade', (_, socket) => {
      shaken.push(Date.now());
      socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope');
    });
  });

  test('waits with its handshake', async () => {
    const edge = await world.gateway(everything(one('500ms', '10s')));
    const began = Date.now();
    await edge.send('/x');
    const headers = {
      ...{ connection: 'Upgrade', upgrade: 'websocket', 'cf-connecting-ip': '192.0.2.1' },
      ...{ 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==', 'sec-websocket-version': '13' },
    };
    const outgoing = request(`${edge.url}/x`, { headers });
    outgoing.end();
    const [response] = await once(outgoing, 'response');
    response.resume();
    assert.equal(response.statusCode, 426);
    // The gateway's clock may be a few milliseconds behind this one's.
    assert.ok(shaken[0] >= began + 490, `${shaken[0] - began}`);
  });
});

describe('a request that may not wait', () => {
  test('as its moment is further away than the delay: 429 until it would be held', async () => {
    const edge = await world.gateway(everything(one('1h', '20s')));
    await edge.send('/x');
    const reply = await edge.send('/x');
    const { type, retry_after: after } = problem(reply, 429);
    assert.equal(type, QUOTA_EXCEEDED);
    // An hour less the delay, and the round trip.
    assert.ok(after <= 3580 && after > 3500, `${after}`);
    assert.deepEqual([Number(reply.headers['retry-after']), rateLimit(reply).rate.t], [after, after]);
    assert.deepEqual(await delayed(edge), { waiting: 0, held: 0, full: 0 });
    // The isolate remembers it, until then.
    assert.equal((await edge.send('/x')).headers['sluicegate-tier'], 'cache');
    assert.equal(world.origin.seen.length, 1);
  });

  test('as many wait as may: 429, and its place is there when the first has gone', async () => {
    const edge = await world.gateway(everything(one('2s', '30s', { waiting: 1 })));
    await edge.send('/x');
    const held = edge.send('/x');
    await untilWaiting(edge, 1);
    const refused = await edge.send('/x');
    const { retry_after: after } = problem(refused, 429);
    assert.ok(rateLimit(refused).rate.t <= after && after <= 4, `${after}`);
    assert.deepEqual(await delayed(edge), { waiting: 1, held: 1, full: 1 });
    assert.equal((await held).status, 200);
    // It would have waited no longer than it may, so nothing is remembered against it.
    const next = await edge.send('/x');
    assert.deepEqual([next.status, next.headers['sluicegate-tier']], [200, 'store']);
    assert.deepEqual(await delayed(edge), { waiting: 0, held: 2, full: 1 });
  });

  test('as another limit refuses it: nothing is reserved', async () => {
    const other = { ...delaying({ name: 'other', limit: 1, window: '1h' }), over_limit: undefined };
    const edge = await world.gateway(policy([one('10s', '30s'), other], [route('/x', ['rate', 'other'])]));
    await edge.send('/x');
    const after = await queue(edge);
    assert.deepEqual(problem(await edge.send('/x'), 429)['violated-policies'], ['other']);
    assert.equal(after, 0);
    assert.equal(await queue(edge), 0);
  });

  test('as it costs nothing: it passes at once', async () => {
    const free = { ...one('1h', '60s'), burst: 1, cost: { header: 'x-cost', max: 1, default: 1 } };
    const edge = await world.gateway(everything(free));
    await edge.send('/x');
    assert.equal((await edge.send('/x', { headers: { 'x-cost': '0' } })).status, 200);
    assert.equal((await delayed(edge)).held, 0);
  });
});

describe('POST check', () => {
  test('reserves as a request does, and says for how long to hold it', async () => {
    const edge = await world.gateway(everything(one('10s', '30s')));
    const ask = async (cost = 1) => (await edge.check({ limits: ['rate'], subject: {}, cost })).json();
    const answers = [await ask(), await ask(), await ask(), await ask(0), await ask(), await ask()];
    assert.deepEqual(
      answers.map(({ allowed }) => allowed),
      [true, true, true, true, true, false],
    );
    const [first, second, third, look, fourth, refused] = answers;
    assert.equal(first.delay_ms, undefined);
    for (const [answer, moment] of /** @type {const} */ ([
      [second, 10_000],
      [third, 20_000],
      [look, 20_000],
      [fourth, 30_000],
    ])) {
      assert.ok(answer.delay_ms <= moment && answer.delay_ms > moment - 9_000, `${answer.delay_ms} of ${moment}`);
      assert.deepEqual([answer.retry_after_ms, answer.limits[0].allowed], [null, true]);
    }
    assert.equal(refused.delay_ms, undefined);
    assert.ok(refused.retry_after_ms <= 10_000, `${refused.retry_after_ms}`);
    // It has no place in the isolate: who asks holds the request.
    assert.deepEqual(await delayed(edge), { waiting: 0, held: 0, full: 0 });
  });
});

describe('a repeat under an idempotency key', () => {
  const keyed = (/** @type {object} */ over) =>
    everything({ ...one('2s', '30s', over), idempotency: 'header:idempotency-key' });
  const headers = { 'idempotency-key': 'a' };

  test('waits as it did, and is charged once', async () => {
    const edge = await world.gateway(keyed({}));
    await edge.send('/x');
    const replies = await Promise.all([edge.send('/x', { headers }), edge.send('/x', { headers })]);
    assert.deepEqual(
      replies.map(({ status }) => status),
      [200, 200],
    );
    assert.equal((await delayed(edge)).held, 2);
    assert.equal(await queue(edge), 0);
  });

  test('without a place is refused until then', async () => {
    const edge = await world.gateway(keyed({ waiting: 1 }));
    await edge.send('/x');
    const held = edge.send('/x', { headers });
    await untilWaiting(edge, 1);
    const refused = await edge.send('/x', { headers });
    assert.equal(problem(refused, 429).retry_after <= 2, true);
    assert.equal((await held).status, 200);
    assert.deepEqual(await delayed(edge), { waiting: 0, held: 1, full: 1 });
  });
});

describe('without the store', () => {
  const dead = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' };

  test('an open limit lets a request pass at once, a closed one answers 503', async () => {
    const limit = one('1h', '60s');
    for (const [word, status] of /** @type {const} */ ([
      ['open', 200],
      ['closed', 503],
    ])) {
      const edge = await world.gateway(everything({ ...limit, on_store_error: word }), dead);
      for (let sent = 0; sent < 2; sent += 1) assert.equal((await edge.send('/x')).status, status);
      assert.deepEqual(await delayed(edge), { waiting: 0, held: 0, full: 0 });
    }
  });

  test('a degraded one holds by the isolate’s share, and its places come back', async () => {
    const limit = { ...one('1s', '30s', { waiting: 1 }), on_store_error: 'degraded' };
    const edge = await world.gateway(everything(limit), dead);
    assert.equal((await edge.send('/x')).status, 200);
    for (let sent = 0; sent < 2; sent += 1) {
      const reply = await edge.send('/x');
      assert.deepEqual([reply.status, reply.headers['sluicegate-tier']], [200, 'degraded']);
    }
    const { waiting, full } = await delayed(edge);
    assert.deepEqual([waiting, full], [0, 0]);
  });
});
