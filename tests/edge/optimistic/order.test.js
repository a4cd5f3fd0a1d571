// Who is asked when: proved by the order of events. The store's reply and the origin's answer are held until the test lets
// them go.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { many, statuses } from '../support/client.js';
import { left, problem, rateLimitPolicy } from '../support/fields.js';
import { NOSCRIPT, PASSES, REFUSES, useHoldingStore } from '../support/holding.js';
import { limit, policy, route } from '../support/policy.js';
import { begin, held } from '../support/slots.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();
const store = useHoldingStore();

const routes = [
  route('/a', ['a'], { optimistic: true }),
  route('/first', ['a']),
  route('/free', []),
  route('/named', ['named'], { optimistic: true }),
];
const text = policy([limit('a'), limit('named', { idempotency: 'header:idempotency-key' })], routes);
const gateway = (/** @type {Record<string, unknown>} */ vars = {}, /** @type {unknown} */ said = text) =>
  world.gateway(said, { UPSTASH_REDIS_REST_URL: store.url, ...vars });
const arrived = (/** @type {string} */ path) => world.origin.seen.filter((seen) => seen.path === path).length;
const atOrigin = (/** @type {string} */ path) => until(() => arrived(path) > 0, `${path} at the origin`);

/**
 * That a request has not reached the origin: another, sent later, has been there and back.
 *
 * @param {import('../support/world.js').Edge} edge
 * @param {string} path
 */
async function notAtOrigin(edge, path) {
  assert.equal((await edge.send('/free')).status, 200);
  assert.equal(arrived(path), 0);
}

describe('both are asked at once', () => {
  test('the origin has the request, and has answered it, while the store has yet to say', async () => {
    const edge = await gateway();
    const reply = edge.send('/a');
    const call = await store.call(1);
    await atOrigin('/a');
    call.reply(PASSES);
    const { status, text: body, headers } = await reply;
    assert.deepEqual([status, body, headers['sluicegate-tier']], [200, 'origin', 'store']);
    assert.equal(left(await Promise.resolve(reply), 'a'), 2);
    assert.deepEqual([arrived('/a'), store.calls.length], [1, 1]);
  });

  test('the store is asked while the origin has yet to answer', async () => {
    const edge = await gateway();
    const [waiting] = [held(world, '/a', () => {})];
    const reply = edge.send('/a');
    await atOrigin('/a');
    (await store.call(1)).reply(PASSES);
    waiting[0].end('late');
    assert.equal((await reply).text, 'late');
  });

  test('HEAD too, whose answer has no body', async () => {
    const edge = await gateway();
    const reply = edge.send('/a', { method: 'HEAD' });
    await atOrigin('/a');
    (await store.call(1)).reply(PASSES);
    const { status, text: body, headers } = await reply;
    assert.deepEqual([status, body, headers['content-length']], [200, '', '6']);
    assert.equal(world.origin.seen[0].method, 'HEAD');
  });

  test('a body that streams comes to its end, and so does one of some size', async () => {
    const edge = await gateway();
    const size = 8 * 1024 * 1024;
    held(world, '/a', (response) => response.end(Buffer.alloc(size, 'x')));
    const reply = edge.send('/a');
    await atOrigin('/a');
    (await store.call(1)).reply(PASSES);
    assert.equal((await reply).text.length, size);
  });

  test('what the gateway says of a request that passes is said as on any other route', async () => {
    const edge = await gateway();
    const plain = edge.send('/first');
    (await store.call(1)).reply(PASSES);
    const optimistic = edge.send('/a');
    await atOrigin('/a');
    (await store.call(2)).reply(PASSES);
    const fields = (/** @type {import('../support/client.js').Reply} */ reply) => ({ ...reply.headers, date: '' });
    assert.deepEqual(fields(await optimistic), fields(await plain));
    const [first, second] = world.origin.seen.map(({ headers }) => headers);
    assert.deepEqual(second, first);
  });

  test('a hundred at once, each its own answer', async () => {
    const edge = await gateway({}, policy([limit('a', { key: ['query:n'] })], routes.slice(0, 1)));
    world.origin.handlers.set('/a', (response, { path }) => response.end(path));
    const replies = many(100, (index) => edge.send(`/a?n=${index}`));
    await until(() => world.origin.seen.length === 100, 'all at the origin');
    await store.call(100);
    for (const call of store.calls) call.reply(PASSES);
    assert.deepEqual(
      (await replies).map((reply) => reply.text),
      Array.from({ length: 100 }, (_, index) => `/a?n=${index}`),
    );
  });
});

describe('one request at the origin, whatever the store takes', () => {
  test('NOSCRIPT, then the script’s text', async () => {
    const edge = await gateway();
    const reply = edge.send('/a');
    await atOrigin('/a');
    (await store.call(1)).reply(NOSCRIPT);
    const again = await store.call(2);
    assert.equal(again.command[0], 'EVAL');
    again.reply(PASSES);
    assert.equal((await reply).text, 'origin');
    assert.equal(arrived('/a'), 1);
  });

  test('a call that is made once more', async () => {
    const repeatable = { store: { exactly_once: true, retry: { budget: 1, backoff: '0s' } } };
    const edge = await gateway({}, policy([limit('a')], routes.slice(0, 1), repeatable));
    const reply = edge.send('/a');
    await atOrigin('/a');
    (await store.call(1)).reset();
    (await store.call(2)).reply(PASSES);
    assert.equal((await reply).text, 'origin');
    assert.equal(arrived('/a'), 1);
  });

  test('NOSCRIPT, then a refusal', async () => {
    const edge = await gateway();
    const reply = edge.send('/a');
    await atOrigin('/a');
    (await store.call(1)).reply(NOSCRIPT);
    (await store.call(2)).reply(REFUSES);
    problem(await reply, 429);
    assert.equal(arrived('/a'), 1);
  });
});

describe('the store is asked first', () => {
  /** @type {[string, string, import('../support/client.js').Sent][]} */
  const rows = [
    ['on a route that is not optimistic', '/first', {}],
    ['for a method that changes things', '/a', { method: 'POST', body: '{}' }],
    ['for a method that changes things, without a body', '/a', { method: 'DELETE' }],
    ['for OPTIONS', '/a', { method: 'OPTIONS' }],
    ['for a GET with a body', '/a', { body: 'of a GET' }],
    ['for a GET under an idempotency key', '/named', { headers: { 'idempotency-key': 'k' } }],
  ];
  for (const [what, path, sent] of rows) {
    test(what, async () => {
      const edge = await gateway();
      const reply = edge.send(path, sent);
      const call = await store.call(1);
      await notAtOrigin(edge, path);
      call.reply(PASSES);
      assert.equal((await reply).status, 200);
      assert.equal(arrived(path), 1);
    });
  }

  test('for a WebSocket', async () => {
    const edge = await gateway();
    let shaken = 0;
    const shake = (/** @type {unknown} */ _, /** @type {import('node:net').Socket} */ socket) => {
      shaken += 1;
      socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
    };
    world.origin.server.on('upgrade', shake);
    const headers = { upgrade: 'websocket', connection: 'Upgrade', 'sec-websocket-version': '13' };
    const asked = begin(edge, '/a', { headers: { ...headers, 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' } });
    const call = await store.call(1);
    await notAtOrigin(edge, '/a');
    assert.equal(shaken, 0);
    call.reply(PASSES);
    assert.equal((await asked.head).statusCode, 426);
    world.origin.server.off('upgrade', shake);
  });

  test('for a path that another route counts too, which is not optimistic', async () => {
    const both = [route('/b/{x}', ['a'], { optimistic: true }), route('/b/{x}/c', ['b'])];
    const edge = await gateway({}, policy([limit('a'), limit('b')], [...both, route('/free', [])]));
    const reply = edge.send('/b/x%2Fc');
    const call = await store.call(1);
    await notAtOrigin(edge, '/b/x%2Fc');
    call.reply('{"result":[1,3,2,1000,0,3,2,1000,0]}');
    assert.equal((await reply).status, 200);
  });

  test('on the one route, and not on the other that names the same limit', async () => {
    const edge = await gateway();
    const optimistic = edge.send('/a');
    await atOrigin('/a');
    const plain = edge.send('/first');
    await store.call(2);
    await notAtOrigin(edge, '/first');
    for (const call of store.calls) call.reply(PASSES);
    assert.deepEqual(statuses(await Promise.all([optimistic, plain])), { 200: 2 });
  });
});

describe('what the isolate knows by itself never reaches the origin', () => {
  test('a refusal that it remembers', async () => {
    const edge = await gateway();
    const first = edge.send('/a');
    await atOrigin('/a');
    (await store.call(1)).reply(REFUSES);
    problem(await first, 429);
    const replies = await many(20, () => edge.send('/a'));
    assert.deepEqual(statuses(replies), { 429: 20 });
    assert.equal(replies[0].headers['sluicegate-tier'], 'cache');
    assert.deepEqual([arrived('/a'), store.calls.length], [1, 1]);
  });

  test('a limit that lets nothing pass', async () => {
    const edge = await gateway({}, policy([limit('a', { limit: 'blocked' })], routes.slice(0, 1)));
    problem(await edge.send('/a'), 429);
    assert.deepEqual([arrived('/a'), store.calls.length], [0, 0]);
  });

  test('a missing key', async () => {
    const edge = await gateway({}, policy([limit('a', { key: ['header:x-tenant'] })], routes.slice(0, 1)));
    problem(await edge.send('/a'), 400);
    assert.deepEqual([arrived('/a'), store.calls.length], [0, 0]);
  });

  test('that there is no store', async () => {
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: undefined });
    const replies = await many(5, () => edge.send('/a'), 1);
    assert.deepEqual(statuses(replies), { 200: 3, 429: 2 });
    assert.deepEqual(rateLimitPolicy(replies[0]).a.q, 3);
    assert.equal(arrived('/a'), 3);
  });

  test('that it does not ask the store for now', async () => {
    const breaker = { min_calls: 1, open: '10m', max_open: '10m', long_open: '10m' };
    const edge = await gateway(
      {},
      policy([limit('a')], routes.slice(0, 1), { store: { breaker, retry: { budget: 0 } } }),
    );
    const first = edge.send('/a');
    await atOrigin('/a');
    (await store.call(1)).reset();
    problem(await first, 503);
    assert.deepEqual(statuses(await many(20, () => edge.send('/a'))), { 503: 20 });
    assert.deepEqual([arrived('/a'), store.calls.length], [1, 1]);
  });
});

describe('a client that goes', () => {
  test('before anybody has answered: the origin and the store are left', async () => {
    const edge = await gateway();
    const waiting = held(world, '/a', () => {});
    const asked = begin(edge, '/a');
    const call = await store.call(1);
    await until(() => waiting.length === 1, 'the origin to be asked');
    asked.reset();
    await until(() => waiting[0].destroyed, 'the origin to be left');
    await until(() => call.response.destroyed, 'the store to be left');
    assert.equal((await edge.send('/free')).status, 200);
  });

  test('after the decision: the origin is left', async () => {
    const edge = await gateway();
    const waiting = held(world, '/a', () => {});
    const asked = begin(edge, '/a');
    (await store.call(1)).reply(PASSES);
    await until(() => waiting.length === 1, 'the origin to be asked');
    asked.reset();
    await until(() => waiting[0].destroyed, 'the origin to be left');
  });

  test('in the middle of an answer that was there before the decision: the origin is left', async () => {
    const edge = await gateway();
    const waiting = held(world, '/a');
    const asked = begin(edge, '/a');
    await until(() => waiting.length === 1, 'the origin to be asked');
    (await store.call(1)).reply(PASSES);
    await once(await asked.head, 'data');
    asked.reset();
    await until(() => waiting[0].destroyed, 'the origin to be left');
  });
});
