// A fault of our own takes down its request, and nobody else. The Worker is one whose faults can be provoked.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { many, statuses } from '../support/client.js';
import { left, problem } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');
const built = (/** @type {string} */ name) => join(root, 'target', 'provoked', name);
const modules = { 'index.js': built('index.js'), 'index_bg.wasm': built('index_bg.wasm') };

const world = useWorld({ scriptKnown: true });
const SECRET = 'Bearer of-a-secret';

/** Passes, 2 left of 3. */
const PASSES = '{"result":[1,3,2,1000,0]}';

/** A store that keeps callers waiting while it is told to. */
const store = {
  url: '',
  holding: false,
  /** @type {import('node:http').ServerResponse[]} */
  held: [],
  calls: 0,
  /** Answers everyone who waits. */
  release() {
    for (const response of store.held.splice(0)) response.end(PASSES);
  },
};
const server = createServer((request, response) => {
  request.resume().on('end', () => {
    store.calls += 1;
    if (store.holding) store.held.push(response);
    else response.end(PASSES);
  });
});

before(async () => {
  execFileSync('node', [join(root, 'dev', 'build.js'), '--provoked'], { stdio: 'inherit' });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  store.url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
});
beforeEach(() => Object.assign(store, { holding: false, calls: 0 }));
after(() => {
  server.closeAllConnections();
  server.close();
});

const gateway = (
  /** @type {Record<string, unknown>} */ vars = {},
  /** @type {unknown} */ text = policy([limit('a')]),
) => world.gateway(text, vars, {}, { modules });
/** @param {import('../support/world.js').Edge} edge @param {string} how */
const provoke = (edge, how) => edge.send('/a', { headers: { 'x-provoke': how, authorization: SECRET } });

describe('one that strikes', () => {
  for (const how of ['panic', 'quoting', 'overflow', 'throw']) {
    // github.com/cloudflare/workers-rs issues 166 and 453: it must be a bounded answer, and the next must be served.
    test(`by ${how}: 500 for that request, the next ones are served`, async () => {
      const edge = await gateway();
      assert.equal((await edge.send('/a')).status, 200);
      const { detail, ...rest } = problem(await provoke(edge, how), 500);
      assert.deepEqual(rest, { type: 'about:blank', title: 'Internal error', status: 500 });
      assert.equal(detail, 'a fault in the gateway');
      for (const path of ['/a', '/a', '/b', '/.sluicegate/health']) assert.equal((await edge.send(path)).status, 200);
      assert.equal((await edge.logged('fault')).length, 1);
      assert.doesNotMatch(edge.logText(), /of-a-secret|hanging|never generate/);
    });
  }

  test('as the very first request', async () => {
    const edge = await gateway();
    problem(await provoke(edge, 'panic'), 500);
    assert.equal((await edge.send('/a')).status, 200);
  });

  test('again and again', async () => {
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url });
    for (let round = 0; round < 20; round += 1) {
      problem(await provoke(edge, 'panic'), 500);
      assert.equal((await edge.send('/a')).status, 200);
    }
  });

  test('can be read by the scripts that may read our answers, and has no body for HEAD', async () => {
    const cors = ['https://app.example.com'];
    const edge = await gateway(
      { UPSTASH_REDIS_REST_URL: store.url },
      policy([limit('a')], undefined, { gateway: { cors } }),
    );
    const open = (/** @type {import('../support/client.js').Reply} */ { headers }) => [
      headers['access-control-allow-origin'],
      headers['access-control-allow-credentials'],
      headers.vary,
    ];
    const struck = (/** @type {string} */ origin, method = 'GET') =>
      edge.send('/a', { method, headers: { 'x-provoke': 'panic', origin } });
    for (const method of ['GET', 'HEAD']) {
      const reply = await struck(cors[0], method);
      assert.deepEqual([reply.status, ...open(reply)], [500, cors[0], 'true', 'Origin'], method);
    }
    assert.equal((await struck(cors[0], 'HEAD')).text, '');
    assert.deepEqual(open(await struck('https://evil.example')), [undefined, undefined, 'Origin']);
    store.holding = true;
    const interrupted = edge.send('/a', { headers: { origin: cors[0] } });
    for (let round = 0; round < 2; round += 1) {
      await until(() => store.held.length === 1, 'a call to the store');
      problem(await provoke(edge, 'panic'), 500);
      store.release();
    }
    const reply = await interrupted;
    assert.deepEqual([problem(reply, 503).title, ...open(reply)], ['Interrupted', cors[0], 'true', 'Origin']);
    assert.deepEqual(open(await provoke(await gateway(), 'panic')), [undefined, undefined, undefined]);
  });

  test('is told in the log: where, and what it said if that was literal', async () => {
    const edge = await gateway();
    await provoke(edge, 'panic');
    await provoke(edge, 'quoting');
    const [literal, quoting] = await edge.logged('panic', 2);
    assert.match(literal.at, /^src\/panic\.rs:\d+:\d+$/);
    assert.equal(literal.said, 'provoked');
    assert.match(quoting.at, /^src\/panic\.rs:\d+:\d+$/);
    assert.equal(quoting.said, null);
  });

  test('takes what the isolate knew with it, not what the store knows', async () => {
    const edge = await gateway();
    await edge.send('/a');
    await provoke(edge, 'panic');
    assert.equal(left(await edge.send('/a'), 'a'), 1);
    const alone = await gateway({ UPSTASH_REDIS_REST_URL: undefined });
    await alone.send('/a');
    await provoke(alone, 'panic');
    assert.equal(left(await alone.send('/a'), 'a'), 2);
  });
});

describe('those under way', () => {
  // github.com/cloudflare/workers-rs issue 866 and pull 835: 50 in flight and a panic.
  test('are decided anew: 50 of 50 are answered, each asked for once more', async () => {
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url });
    store.holding = true;
    const replies = many(50, () => edge.send('/a'));
    await until(() => store.held.length === 50, '50 calls to the store');
    store.holding = false;
    problem(await provoke(edge, 'panic'), 500);
    assert.equal((await edge.send('/a')).status, 200, 'a request of the new life');
    store.release();
    assert.deepEqual(statuses(await replies), { 200: 50 });
    assert.equal(store.calls, 50 + 1 + 50);
    assert.equal(world.origin.seen.length, 51);
  });

  test('do not meet a ticket of the new life that has their number', async () => {
    const routes = [route('/a', ['a']), route('/b', ['a', 'b'])];
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url }, policy([limit('a'), limit('b')], routes));
    store.holding = true;
    const old = edge.send('/a');
    await until(() => store.held.length === 1, 'a call to the store');
    problem(await provoke(edge, 'panic'), 500);
    const young = edge.send('/b');
    await until(() => store.held.length === 2, 'another call to the store');
    const [first, second] = store.held.splice(0);
    store.holding = false;
    // One limit's answer: for the two of /b it would be malformed, and `closed` would refuse.
    first.end(PASSES);
    assert.equal((await old).status, 200);
    second.end('{"result":[1,3,2,1000,0,3,2,1000,0]}');
    assert.equal((await young).status, 200);
  });

  test('that come back together while one of them panics: that one alone fails', async () => {
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url });
    store.holding = true;
    const replies = many(50, () => edge.send('/a'));
    await until(() => store.held.length === 50, '50 calls to the store');
    store.holding = false;
    assert.equal((await edge.send('/free', { headers: { 'x-provoke': 'later' } })).status, 200);
    store.release();
    assert.deepEqual(statuses(await replies), { 200: 49, 500: 1 });
  });

  test('are handed in once more and no oftener: then 503', async () => {
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url });
    store.holding = true;
    const reply = edge.send('/a');
    for (let round = 0; round < 2; round += 1) {
      await until(() => store.held.length === 1, 'a call to the store');
      problem(await provoke(edge, 'panic'), 500);
      store.release();
    }
    assert.equal(problem(await reply, 503).title, 'Interrupted');
    assert.equal(store.calls, 2);
  });

  test('at the decision API too, whose body was read before', async () => {
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url });
    store.holding = true;
    const reply = edge.check({ limits: ['a'], subject: { ip: '192.0.2.1' } });
    await until(() => store.held.length === 1, 'a call to the store');
    store.holding = false;
    problem(await provoke(edge, 'panic'), 500);
    store.release();
    assert.equal((await reply).json().allowed, true);
  });

  test('that wait for their moment go on then', async () => {
    const fields = { algorithm: 'token-bucket', limit: 1, window: '4s', over_limit: { delay: '9s' } };
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: undefined }, policy([limit('a', fields)]));
    const began = Date.now();
    await edge.send('/a');
    const reply = edge.send('/a');
    const status = () => edge.send('/.sluicegate/v1/status', { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
    await until(async () => (await status()).json().delayed.waiting === 1, 'a request to wait');
    problem(await provoke(edge, 'panic'), 500);
    assert.equal((await status()).json().delayed.waiting, 0, 'the new life knows nothing of it');
    assert.deepEqual([(await reply).status, world.origin.seen.length], [200, 2]);
    // The gateway's clock may be a few milliseconds behind this one's.
    assert.ok(Date.now() - began >= 3990, 'no earlier');
  });

  test('that were begun at the origin ahead of their decision are there once', async () => {
    const optimistic = policy([limit('a')], [route('/a', ['a'], { optimistic: true })]);
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url }, optimistic);
    store.holding = true;
    const replies = many(20, () => edge.send('/a'));
    await until(() => store.held.length === 20 && world.origin.seen.length === 20, 'both to be asked');
    store.holding = false;
    problem(await provoke(edge, 'panic'), 500);
    store.release();
    assert.deepEqual(statuses(await replies), { 200: 20 });
    assert.deepEqual([store.calls, world.origin.seen.length], [40, 20]);
  });

  test('that were begun so, and fail after all, leave the origin', async () => {
    const optimistic = policy([limit('a')], [route('/a', ['a'], { optimistic: true })]);
    const edge = await gateway({ UPSTASH_REDIS_REST_URL: store.url }, optimistic);
    /** @type {import('node:http').ServerResponse[]} */
    const waiting = [];
    world.origin.handlers.set('/a', (response) => waiting.push(response));
    store.holding = true;
    const struck = edge.send('/a');
    await until(() => store.held.length === 1 && waiting.length === 1, 'both to be asked');
    assert.equal((await edge.send('/free', { headers: { 'x-provoke': 'later' } })).status, 200);
    store.release();
    problem(await struck, 500);
    await until(() => waiting[0].destroyed, 'the origin to be left');
    const interrupted = edge.send('/a');
    for (let round = 0; round < 2; round += 1) {
      await until(() => store.held.length === 1, 'a call to the store');
      problem(await provoke(edge, 'panic'), 500);
      store.release();
    }
    problem(await interrupted, 503);
    await until(() => waiting[1].destroyed, 'the origin to be left');
    assert.equal(waiting.length, 2);
  });

  test('at the origin notice nothing', async () => {
    const edge = await gateway();
    /** @type {(() => void)[]} */
    const finish = [];
    world.origin.handlers.set('/a', (response) => finish.push(() => response.end('late')));
    const reply = edge.send('/a');
    await until(() => finish.length === 1, 'the origin to be asked');
    problem(await provoke(edge, 'panic'), 500);
    finish[0]();
    assert.equal((await reply).text, 'late');
  });

  test('may be charged twice, and with a charge id of their own once', async () => {
    const fields = { algorithm: 'sliding-log', limit: 9, idempotency: 'header:idempotency-key' };
    for (const [headers, charged] of /** @type {const} */ ([
      [{}, 2],
      [{ 'idempotency-key': 'k' }, 1],
    ])) {
      await world.client.flushAll();
      const edge = await gateway({}, policy([limit('a', fields)]));
      world.store.faults.push({ kind: 'delay', ms: 300, apply: true });
      world.store.stats.reset();
      const reply = edge.send('/a', { headers });
      await until(() => world.store.stats.requests >= 1, 'the store to be asked');
      problem(await provoke(edge, 'panic'), 500);
      assert.equal((await reply).status, 200);
      assert.equal(left(await edge.send('/a', { headers: { 'x-cost': '0' } }), 'a'), 9 - charged - 1);
    }
  });
});
