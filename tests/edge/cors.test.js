// What scripts in a browser may read: the rate limit fields of answers that the origin opens to them, and our own
// answers where the policy does.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

/** @typedef {import('./support/client.js').Reply} Reply */

const world = useWorld();
const APP = 'https://app.example.com';
const from = (/** @type {string} */ origin) => ({ headers: { origin } });

/** @param {Reply} reply */
const exposed = (reply) =>
  String(reply.headers['access-control-expose-headers'] ?? '')
    .split(/, */)
    .filter((name) => name !== '');

describe('an answer of the origin’s', () => {
  const headers = ['draft-10', 'draft-03', 'x-ratelimit'];
  const text = policy([limit('a', { limit: 99 })], [route('/a', ['a']), route('/free', [])], { gateway: { headers } });
  /** @param {Record<string, string>} fields */
  const answers = (fields) => {
    for (const path of ['/a', '/free']) {
      world.origin.handlers.set(path, (response) => response.writeHead(200, fields).end());
    }
  };

  test('that is open to the script has our fields exposed, behind what it exposes itself', async () => {
    const edge = await world.gateway(text);
    answers({ 'access-control-allow-origin': APP, 'access-control-expose-headers': 'ETag' });
    const reply = await edge.send('/a', from(APP));
    assert.deepEqual(exposed(reply), [
      ...['ETag', 'RateLimit-Policy', 'RateLimit', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
      ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'Sluicegate-Tier', 'Retry-After'],
    ]);
    for (const name of exposed(reply).filter((name) => !['ETag', 'Retry-After'].includes(name))) {
      assert.ok(reply.headers[name.toLowerCase()], name);
    }
    assert.equal(reply.headers['access-control-allow-origin'], APP);
  });

  test('is left alone where it is open to nobody, nobody asked, or no limit applies', async () => {
    const edge = await world.gateway(text);
    answers({});
    assert.deepEqual(exposed(await edge.send('/a', from(APP))), []);
    answers({ 'access-control-allow-origin': '*' });
    assert.deepEqual(exposed(await edge.send('/a')), []);
    assert.deepEqual(exposed(await edge.send('/free', from(APP))), []);
    const silent = await world.gateway(
      policy([limit('a')], undefined, { gateway: { headers: [], tier_header: false } }),
    );
    assert.deepEqual(exposed(await silent.send('/a', from(APP))), []);
  });

  test('is never opened by us', async () => {
    const edge = await world.gateway({ ...text, gateway: { .../** @type {any} */ (text.gateway), cors: ['*'] } });
    answers({});
    const reply = await edge.send('/a', from(APP));
    assert.equal(reply.headers['access-control-allow-origin'], undefined);
    assert.equal(reply.headers.vary, undefined);
  });
});

describe('an answer of ours', () => {
  /** @param {unknown} cors @param {Record<string, unknown>} [vars] */
  const open = (cors, vars) => {
    const gateway = cors === undefined ? {} : { cors };
    const limits = [limit('a', { limit: 1 }), limit('keyed', { key: ['header:x-key'] })];
    const routes = [route('/a', ['a']), route('/keyed', ['keyed'])];
    return world.gateway(policy(limits, routes, { gateway: { ...gateway, unmatched: 'deny' } }), vars);
  };
  /** @param {Reply} reply */
  const cors = ({ headers }) => ({
    allow: headers['access-control-allow-origin'],
    credentials: headers['access-control-allow-credentials'],
    vary: headers.vary,
  });
  const CLOSED = { allow: undefined, credentials: undefined, vary: undefined };

  test('says nothing unless the policy opens it', async () => {
    for (const edge of [await open(undefined), await open([])]) {
      await edge.send('/a', from(APP));
      const reply = await edge.send('/a', from(APP));
      assert.equal(reply.status, 429);
      assert.deepEqual([cors(reply), exposed(reply)], [CLOSED, []]);
      await world.client.flushAll();
    }
  });

  test('names the origin that is listed, and depends on it', async () => {
    const edge = await open([APP, 'http://localhost:3000']);
    await edge.send('/a');
    for (const origin of [APP, 'http://localhost:3000']) {
      const reply = await edge.send('/a', from(origin));
      problem(reply, 429);
      assert.deepEqual(cors(reply), { allow: origin, credentials: 'true', vary: 'Origin' });
      assert.deepEqual(exposed(reply), ['Retry-After', 'RateLimit-Policy', 'RateLimit', 'Sluicegate-Tier']);
    }
    const shut = { allow: undefined, credentials: undefined, vary: 'Origin' };
    for (const options of [{}, from('https://evil.example'), from(`${APP}.evil.example`), from('null'), from('*')]) {
      const reply = await edge.send('/a', options);
      assert.equal(reply.status, 429);
      assert.deepEqual([cors(reply), exposed(reply)], [shut, []], JSON.stringify(options));
    }
  });

  test('["*"] opens it to all, without credentials', async () => {
    const edge = await open(['*']);
    await edge.send('/a');
    const open_ = { allow: '*', credentials: undefined, vary: undefined };
    assert.deepEqual(cors(await edge.send('/a', from('https://anybody.example'))), open_);
    assert.deepEqual(cors(await edge.send('/a')), CLOSED);
  });

  test('whatever it is: 400, 404, 414, 431, 502, 503', async () => {
    const allowed = { allow: APP, credentials: 'true', vary: 'Origin' };
    const edge = await open([APP], { ORIGIN: 'http://127.0.0.1:1' });
    const origin = { origin: APP };
    for (const [path, status, headers] of /** @type {[string, number, Record<string, string>][]} */ ([
      ['/keyed', 400, origin],
      ['/nowhere', 404, origin],
      [`/${'x'.repeat(17_000)}`, 414, origin],
      ['/keyed', 431, { ...origin, 'x-key': 'x'.repeat(9000) }],
      ['/a', 502, origin],
    ])) {
      const reply = await edge.send(path, { headers });
      problem(reply, status);
      assert.deepEqual(cors(reply), allowed, path.slice(0, 20));
    }
    const down = await open([APP], { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' });
    const reply = await down.send('/a', from(APP));
    problem(reply, 503);
    assert.deepEqual(cors(reply), allowed);
    assert.ok(exposed(reply).includes('Retry-After'));
  });
});

test('a preflight goes to the origin, free, with its answer as it is', async () => {
  const edge = await world.gateway(policy([limit('a', { limit: 1 })], undefined, { gateway: { cors: [APP] } }));
  world.origin.handlers.set('/a', (response) =>
    response.writeHead(204, { 'access-control-allow-origin': APP, 'access-control-allow-methods': 'PUT' }).end(),
  );
  const headers = { origin: APP, 'access-control-request-method': 'PUT' };
  for (let sent = 0; sent < 4; sent += 1) {
    const reply = await edge.send('/a', { method: 'OPTIONS', headers });
    assert.deepEqual([reply.status, reply.headers['access-control-allow-methods']], [204, 'PUT']);
    assert.equal(reply.headers['access-control-expose-headers'], undefined);
  }
  assert.equal(world.store.stats.requests, 0);
  // Without Origin it is no preflight.
  const { origin: _, ...plain } = headers;
  assert.equal((await edge.send('/a', { method: 'OPTIONS', headers: plain })).headers['sluicegate-tier'], 'store');
});
