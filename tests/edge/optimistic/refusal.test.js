// A refusal throws the origin's answer away: nothing of it reaches the client, whatever it is and whenever it came, and the
// origin's connection is closed.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { left, problem, QUOTA_EXCEEDED, REDUCED_CAPACITY } from '../support/fields.js';
import { NOSCRIPT, PASSES, REFUSES, useHoldingStore } from '../support/holding.js';
import { useNamespace } from '../support/namespace.js';
import { limit, policy, route } from '../support/policy.js';
import { answer, exchange, requestOf, useRawOrigin } from '../support/raw.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

/** @typedef {import('../support/raw.js').Serve} Serve */

const world = useWorld();
const store = useHoldingStore();
const raw = useRawOrigin();
const namespace = useNamespace();

const LIMITS = ['open', 'closed', 'degraded'].map((kind) => limit(kind, { on_store_error: kind }));
const routes = LIMITS.flatMap(({ name }) => [
  route(`/${name}`, [String(name)], { optimistic: true }),
  route(`/first/${name}`, [String(name)]),
]);
const quick = { min_calls: 1, open: '10m', max_open: '10m', long_open: '10m' };
/** Remembers nothing, so that the same subject can be refused twice by the store. */
const text = (/** @type {Record<string, unknown>} */ sections = {}, /** @type {object} */ more = {}) =>
  policy(LIMITS, routes, { store: { remember: '0s', retry: { budget: 0 }, ...more }, ...sections });
/** @param {unknown} [said] @param {Record<string, unknown>} [vars] */
const gateway = (said = text(), vars = {}) =>
  world.gateway(said, { UPSTASH_REDIS_REST_URL: store.url, ORIGIN: raw.url, ...vars });

/** What an isolate begins in vain at most, before anything has passed. */
const CREDIT = 256;

const MARK = 'of-the-origin';
const fields = `Set-Cookie: ${MARK}=1\r\nX-Own: ${MARK}\r\nRateLimit: "${MARK}";r=1\r\nCache-Control: public\r\nETag: "${MARK}"`;
const whole = (/** @type {string} */ line, /** @type {string} */ more = '') =>
  answer(`HTTP/1.1 ${line}\r\n${fields}\r\n${more}Content-Length: ${MARK.length}\r\nConnection: close\r\n\r\n${MARK}`);

/** A head, and then as much as the connection takes. @type {Serve} */
const endless = ({ socket }) => {
  socket.write(`HTTP/1.1 200 OK\r\n${fields}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  const piece = `10000\r\n${MARK.padEnd(0x10000, '.')}\r\n`;
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.on('drain', more);
  more();
};

/** By which methods the origin has more to say, once it has served so much. @type {[string, Serve, string[]?][]} */
const ORIGINS = [
  ['answers', whole('200 OK')],
  ['redirects', whole('302 Found', `Location: http://${MARK}.invalid/\r\n`)],
  ['has nothing new', answer(`HTTP/1.1 304 Not Modified\r\n${fields}\r\nConnection: close\r\n\r\n`)],
  ['refuses by itself', whole('429 Too Many Requests', 'Retry-After: 1234567\r\n')],
  ['fails', whole('500 Internal Server Error')],
  ['is overloaded', whole('503 Service Unavailable')],
  ['speaks another protocol', answer('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n')],
  ['speaks no HTTP', answer(`${MARK}\r\n\r\n`)],
  ['resets its connection', ({ socket }) => socket.resetAndDestroy()],
  ['closes in the middle', answer(`HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n${MARK}`)],
  ['never answers', () => {}, ['GET', 'HEAD']],
  ['stays within its head', ({ socket }) => socket.write(`HTTP/1.1 200 OK\r\n${fields}\r\n`), ['GET', 'HEAD']],
  [
    'has a silent body',
    ({ socket }) => socket.write(`HTTP/1.1 200 OK\r\n${fields}\r\nContent-Length: 9\r\n\r\n`),
    ['GET'],
  ],
  ['has an endless body', endless, ['GET', 'HEAD']],
];

/** What a client sees, byte for byte, but for its moment. @param {import('../support/raw.js').RawReply} reply */
const seen = ({ head, body }) => ({ head: head.replace(/\r\nDate: [^\r]*/i, ''), body: body.toString('latin1') });

/**
 * The same request on the optimistic route, and on the other one; the store's replies are given to each in turn.
 *
 * @typedef {import('../support/world.js').Edge} Edge
 * @typedef {(call: import('../support/holding.js').Held) => void} Answer
 *
 * @param {Edge} edge
 * @param {object} asked
 * @param {string} [asked.kind]
 * @param {string} [asked.method]
 * @param {Serve} asked.serve
 * @param {Answer[]} asked.replies
 * @param {Edge} [asked.other] whom to ask on the other route, where replies are such that the first asks no store for a while
 */
async function both(edge, { kind = 'closed', method = 'GET', serve, replies, other = edge }) {
  raw.serve = serve;
  const settle = async (/** @type {number} */ first) => {
    for (const [index, reply] of replies.entries()) reply(await store.call(first + index));
  };
  const optimistic = exchange(edge.port, requestOf(`${method} /${kind}`));
  await until(() => raw.arrived.length === 1, 'the request at the origin');
  await settle(1);
  const ours = await optimistic;
  const expected = exchange(other.port, requestOf(`${method} /first/${kind}`));
  await settle(1 + replies.length);
  assert.deepEqual(seen(ours), seen(await expected));
  assert.doesNotMatch(ours.head + ours.body.toString('latin1'), new RegExp(MARK));
  assert.equal(raw.arrived.length, 1, 'the other was refused before the origin heard of it');
  return ours;
}

const refused = (/** @type {import('../support/holding.js').Held} */ call) => call.reply(REFUSES);

for (const method of ['GET', 'HEAD']) {
  describe(`${method}, refused: the answer is the same as if the origin had not been asked, where it`, () => {
    for (const [what, serve, more = []] of ORIGINS) {
      test(what, async () => {
        const edge = await gateway();
        const reply = await both(edge, { method, serve, replies: [refused] });
        assert.equal(reply.status, 429);
        assert.equal(reply.body.length > 0, method === 'GET');
        const [{ socket }] = raw.arrived;
        if (more.includes(method)) await until(() => socket.destroyed, 'the origin’s connection to be closed');
        assert.doesNotMatch(edge.logText(), /uncaught|unhandled|"fault"/i);
      });
    }
  });
}

describe('refused before the origin has answered', () => {
  test('the origin is left, and what it says later is nobody’s', async () => {
    const edge = await gateway();
    raw.serve = () => {};
    const asked = exchange(edge.port, requestOf('GET /closed'));
    await until(() => raw.arrived.length === 1, 'the request at the origin');
    (await store.call(1)).reply(REFUSES);
    assert.equal((await asked).status, 429);
    const [arrived] = raw.arrived;
    await until(() => arrived.socket.destroyed, 'the origin to be left');
    raw.serve = whole('200 OK');
    const next = exchange(edge.port, requestOf('GET /closed'));
    (await store.call(2)).reply(PASSES);
    assert.equal((await next).body.toString(), MARK);
  });

  for (const [what, serve] of /** @type {[string, Serve][]} */ ([
    ['answers', () => {}],
    ['has said all', endless],
  ])) {
    // Where nothing is left to do for a request the platform ends all that it began; here something is.
    test(`by us and not by the platform, while the namespace is read, before the origin ${what}`, async () => {
      const vars = { UPSTASH_REDIS_REST_URL: store.url, ORIGIN: raw.url, POLICY_KV_SECONDS: '3600' };
      namespace.is = 'hangs';
      const edge = await world.gateway(text(), vars, {}, { namespaces: { POLICY_KV: namespace.address } });
      raw.serve = serve;
      const asked = exchange(edge.port, requestOf('GET /closed'));
      await until(() => raw.arrived.length === 1, 'the request at the origin');
      (await store.call(1)).reply(REFUSES);
      await until(() => namespace.underWay === 1, 'the namespace to be read');
      await until(() => raw.arrived[0].socket.destroyed, 'the origin to be left');
      assert.equal(namespace.underWay, 1, 'the request still has something to do');
      assert.equal((await asked).status, 429);
    });
  }

  test('the origin is down', async () => {
    const edge = await gateway(text(), { ORIGIN: 'http://127.0.0.1:1' });
    const asked = edge.send('/closed');
    (await store.call(1)).reply(REFUSES);
    assert.equal(problem(await asked, 429).type, QUOTA_EXCEEDED);
  });

  test('the origin is a binding that is not there', async () => {
    const edge = await gateway(text(), { ORIGIN: 'binding:NOTHING' });
    const asked = edge.send('/closed');
    (await store.call(1)).reply(REFUSES);
    problem(await asked, 429);
    const passes = edge.send('/closed');
    (await store.call(2)).reply(PASSES);
    problem(await passes, 502);
  });

  test('a thousand of them: few reach the origin, none holds anything, and the next one is served', async () => {
    const edge = await gateway();
    raw.serve = endless;
    for (let round = 0; round < 20; round += 1) {
      const first = store.calls.length;
      const replies = Array.from({ length: 50 }, () => exchange(edge.port, requestOf('GET /closed')));
      await store.call(first + 50);
      for (const call of store.calls.slice(first)) call.reply(REFUSES);
      for (const { status, head, body } of await Promise.all(replies)) {
        assert.equal(status, 429);
        assert.doesNotMatch(head + body.toString('latin1'), new RegExp(MARK));
      }
    }
    await until(() => raw.arrived.every(({ socket }) => socket.destroyed), 'the origin to be left by all');
    assert.ok(raw.arrived.length <= CREDIT, `${raw.arrived.length} at the origin`);
    const authorization = `Bearer ${ADMIN_TOKEN}`;
    const status = (await edge.send('/.sluicegate/v1/status', { headers: { authorization } })).json();
    assert.deepEqual(status.optimistic, { begun: CREDIT, discarded: CREDIT, held_back: 1000 - CREDIT });
    raw.serve = whole('200 OK');
    const next = exchange(edge.port, requestOf('GET /open'));
    (await store.call(1001)).reply(PASSES);
    assert.equal((await next).status, 200);
    assert.doesNotMatch(edge.logText(), /uncaught|unhandled|"fault"/i);
  });
});

describe('an origin that fails, where the request passes', () => {
  test('before the decision: 502 with the fields of the limit', async () => {
    const edge = await gateway();
    raw.serve = ({ socket }) => socket.resetAndDestroy();
    const asked = edge.send('/closed');
    await until(() => raw.arrived.length > 0, 'the request at the origin');
    (await store.call(1)).reply(PASSES);
    const reply = await asked;
    problem(reply, 502);
    assert.equal(left(reply, 'closed'), 2);
  });

  test('is late before the decision: 504, whose time began with the origin’s own', async () => {
    const edge = await gateway(text({ gateway: { origin_timeout: '100ms' } }));
    raw.serve = () => {};
    const asked = edge.send('/closed');
    await until(() => raw.arrived[0]?.socket.destroyed, 'the origin to be given up while the store is asked');
    (await store.call(1)).reply(PASSES);
    problem(await asked, 504);
    assert.equal(raw.arrived.length, 1);
  });

  test('is late before the decision, which is a refusal: 429', async () => {
    const edge = await gateway(text({ gateway: { origin_timeout: '100ms' } }));
    raw.serve = () => {};
    const asked = edge.send('/closed');
    await until(() => raw.arrived[0]?.socket.destroyed, 'the origin to be given up while the store is asked');
    (await store.call(1)).reply(REFUSES);
    problem(await asked, 429);
  });
});

describe('a store that fails while the origin is asked', () => {
  /** @type {[string, (call: import('../support/holding.js').Held) => void][]} */
  const faults = [
    ['resets', (call) => call.reset()],
    ['says nonsense', (call) => call.reply('<html>')],
    ['wants another token', (call) => call.reply('{"error":"WRONGPASS invalid or missing auth token"}', 401)],
  ];
  for (const [what, fault] of faults) {
    test(`${what}: closed is 503 and nothing of the origin’s`, async () => {
      const [edge, other] = await Promise.all([gateway(), gateway()]);
      const reply = await both(edge, { serve: whole('200 OK'), replies: [fault], other });
      assert.equal(reply.status, 503);
      assert.equal(JSON.parse(reply.body.toString()).type, REDUCED_CAPACITY);
    });

    test(`${what}: open passes with the answer that is under way`, async () => {
      const edge = await gateway();
      raw.serve = whole('200 OK');
      const asked = edge.send('/open');
      await until(() => raw.arrived.length === 1, 'the request at the origin');
      fault(await store.call(1));
      const reply = await asked;
      assert.deepEqual([reply.status, reply.text, reply.headers['sluicegate-tier']], [200, MARK, 'open']);
      assert.equal(raw.arrived.length, 1);
    });

    test(`${what}: degraded decides by itself, over the answer that is under way`, async () => {
      // With one call the breaker opens, and the origin is asked after the decision.
      const edge = await gateway(text({}, { breaker: quick }));
      raw.serve = whole('200 OK');
      const asked = edge.send('/degraded');
      await until(() => raw.arrived.length === 1, 'the request at the origin');
      fault(await store.call(1));
      const reply = await asked;
      assert.deepEqual([reply.status, reply.text, reply.headers['sluicegate-tier']], [200, MARK, 'degraded']);
      assert.equal(raw.arrived.length, 1);
      problem(await edge.send('/degraded'), 429);
      assert.equal(raw.arrived.length, 1);
    });
  }

  test('degraded refuses: nothing of the origin’s', async () => {
    const edge = await gateway();
    raw.serve = whole('200 OK');
    const first = edge.send('/degraded');
    (await store.call(1)).reset();
    assert.equal((await first).status, 200);
    const second = exchange(edge.port, requestOf('GET /degraded'));
    await until(() => raw.arrived.length === 2, 'the second at the origin');
    (await store.call(2)).reset();
    const { status, head, body } = await second;
    assert.equal(status, 429);
    assert.doesNotMatch(head + body.toString('latin1'), new RegExp(MARK));
  });

  test('stalls: the deadline decides, and an origin that was faster waits for it', async () => {
    const edge = await gateway(text({}, { timeout: '100ms' }));
    raw.serve = whole('200 OK');
    const reply = await edge.send('/closed');
    assert.equal(problem(reply, 503).type, REDUCED_CAPACITY);
    assert.equal(raw.arrived.length, 1);
    assert.equal((await edge.send('/open')).text, MARK);
  });

  test('by NOSCRIPT, and then altogether: closed is 503', async () => {
    const edge = await gateway();
    const noscript = (/** @type {import('../support/holding.js').Held} */ call) => call.reply(NOSCRIPT);
    const reply = await both(edge, { serve: whole('200 OK'), replies: [noscript, (call) => call.reset()] });
    assert.equal(reply.status, 503);
  });

  test('the platform’s own limiter is asked while the origin is under way', async () => {
    const limiter = `export default () => ({ limit: async ({ key }) => ({ success: !key.includes('192.0.2.9') }) });`;
    const degraded = { binding: 'LIMITER' };
    const edge = await world.gateway(
      text({ degraded }),
      { UPSTASH_REDIS_REST_URL: store.url, ORIGIN: raw.url },
      {},
      { wrapped: { LIMITER: limiter } },
    );
    raw.serve = whole('200 OK');
    const passes = edge.send('/degraded');
    await until(() => raw.arrived.length === 1, 'the request at the origin');
    (await store.call(1)).reset();
    assert.deepEqual([(await passes).text, raw.arrived.length], [MARK, 1]);
    const refuses = exchange(edge.port, requestOf('GET /degraded', ['CF-Connecting-IP: 192.0.2.9']));
    await until(() => raw.arrived.length === 2, 'the second at the origin');
    (await store.call(2)).reset();
    const { status, head, body } = await refuses;
    assert.equal(status, 429);
    assert.doesNotMatch(head + body.toString('latin1'), new RegExp(MARK));
  });
});
