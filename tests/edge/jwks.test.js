// The issuer's key set as the gateway in workerd loads it: how often, how much of it, and what its failures come to.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { problem } from './support/fields.js';
import { signer, startIssuer, token } from './support/issuer.js';
import { limit, policy, route } from './support/policy.js';
import { until, useWorld } from './support/world.js';

/** @typedef {import('./support/issuer.js').Handler} Handler */

const world = useWorld();
const by = signer('ES256');

/** @type {Awaited<ReturnType<typeof startIssuer>>} */
let issuer;
before(async () => {
  issuer = await startIssuer();
});
beforeEach(() => {
  issuer.reset();
  issuer.signers.push(by);
});
after(() => issuer.close());

const gateway = () => {
  const limits = [limit('a', { key: ['jwt:sub'], limit: 1e6 }), limit('free', { limit: 1e6 })];
  const jwt = { algorithms: ['ES256'], jwks: issuer.url };
  return world.gateway({ ...policy(limits, [route('/a', ['a']), route('/free', ['free'])]), jwt });
};

/** @param {string} text */
const bearer = (text) => ({ headers: { authorization: `Bearer ${text}` } });
const own = (/** @type {Record<string, unknown>} */ claims = { sub: 'x' }) => bearer(token(by, claims));

/** Keeps answers back. */
function gate() {
  /** @type {import('node:http').ServerResponse[]} */
  const held = [];
  const published = issuer.answer;
  issuer.answer = (response) => held.push(response);
  return {
    held,
    open() {
      issuer.answer = published;
      for (const response of held.splice(0)) published(response, '');
    },
  };
}

describe('loading', () => {
  test('requests that overlap in a new isolate cause one load, and all get its keys', async () => {
    const edge = await gateway();
    const { held, open } = gate();
    const replies = many(50, (index) => edge.send('/a', own({ sub: `user-${index}` })));
    await until(() => held.length > 0, 'the load');
    // Others are served in the meantime.
    assert.equal((await edge.send('/free')).status, 200);
    open();
    assert.deepEqual(statuses(await replies), { 200: 50 });
    assert.equal(issuer.requests, 1);
    assert.equal((await edge.send('/a', own())).status, 200);
    assert.equal(issuer.requests, 1);
  });

  test('a client that goes away in the middle ends no load', async () => {
    const edge = await gateway();
    const { held, open } = gate();
    const gone = request(`${edge.url}/a`, own());
    gone.on('error', () => {});
    gone.end();
    await until(() => held.length > 0, 'the load');
    const waiting = edge.send('/a', own());
    gone.destroy();
    await new Promise((resolve) => gone.once('close', resolve));
    // What the gateway answers now it has begun after that client went.
    await many(20, () => edge.send('/free'), 1);
    open();
    assert.equal((await waiting).status, 200);
    assert.equal(issuer.requests, 1);
  });

  test('made up kids cause no load', async () => {
    const edge = await gateway();
    const forged = (/** @type {number} */ index) => bearer(token(by, { sub: 'x' }, { kid: `made-up-${index}` }));
    assert.deepEqual(statuses(await many(500, (index) => edge.send('/a', forged(index)), 50)), { 400: 500 });
    assert.equal(issuer.requests, 1);
    assert.equal((await edge.send('/a', own())).status, 200);
  });

  test('keys of other kinds and odd ones among the keys do no harm', async () => {
    const odd = [{ kty: 'oct', k: 'AAAA', kid: 'ES256' }, { kty: 'EC', crv: 'P-256', x: '!', y: '' }, { kty: 7 }, {}];
    issuer.signers.push(signer('RS256'), ...odd.map((jwk) => ({ ...by, jwk: /** @type {any} */ (jwk) })));
    const edge = await gateway();
    assert.equal((await edge.send('/a', own())).status, 200);
  });

  test('a token without a kid is tried with the keys that fit, and with a few only', async () => {
    issuer.reset();
    const nameless = Array.from({ length: 20 }, () => signer('ES256', ''));
    issuer.signers.push(...nameless);
    const edge = await gateway();
    const found = await many(20, (index) => edge.send('/a', bearer(token(nameless[index], { sub: 'x' }))));
    assert.deepEqual(
      found.map(({ status }) => status),
      nameless.map((_, index) => (index < 8 ? 200 : 400)),
    );
  });

  test('250 keys are taken', async () => {
    issuer.signers.unshift(
      ...Array.from({ length: 249 }, (_, index) => ({ ...by, jwk: { ...by.jwk, kid: `${index}` } })),
    );
    const edge = await gateway();
    assert.equal((await edge.send('/a', own())).status, 200);
  });
});

describe('a key set that cannot be used', () => {
  const json = { 'content-type': 'application/json' };
  /** @type {[string, string, Handler][]} */
  const failing = [
    ['500', 'status 500', (response) => response.writeHead(500, json).end('{"keys":[]}')],
    ['404', 'status 404', (response) => response.writeHead(404).end()],
    ['201 with the keys', 'status 201', (response) => response.writeHead(201, json).end(keys())],
    ['a redirect to the keys', 'redirect', moved],
    ['HTML', 'no key set', (response) => response.writeHead(200).end('<html>Sign in</html>')],
    ['nothing', 'no key set', (response) => response.writeHead(200, json).end()],
    ['a list', 'no key set', (response) => response.writeHead(200, json).end('[]')],
    ['keys that are no list', 'no key set', (response) => response.writeHead(200, json).end('{"keys":{"length":1}}')],
    ['a key that is no object', 'no key set', (response) => response.writeHead(200, json).end('{"keys":[1]}')],
    ['1000 keys', 'too many keys', (response) => response.writeHead(200, json).end(keys(1000))],
    ['a huge body', 'too long', (response) => response.writeHead(200, json).end(`${' '.repeat(300_000)}${keys()}`)],
    ['a body without an end', 'too long', endless],
    ['a body cut short', 'connection', cutShort],
    ['a reset', 'connection', (response) => response.destroy()],
    ['no answer', 'deadline', () => {}],
    ['a head alone', 'deadline', (response) => response.writeHead(200, json).flushHeaders()],
  ];

  const keys = (copies = 1) => JSON.stringify({ keys: Array.from({ length: copies }, () => by.jwk) });

  /** @type {Handler} */
  function moved(response, path) {
    if (path.endsWith('/moved')) response.writeHead(200, json).end(keys());
    else response.writeHead(302, { location: `${issuer.url}/moved` }).end();
  }

  /** @type {Handler} */
  function endless(response) {
    response.on('error', () => {});
    const more = () => {
      while (!response.destroyed && response.write(' '.repeat(65_536)));
    };
    response.on('drain', more);
    response.writeHead(200, json);
    more();
  }

  /** @type {Handler} */
  function cutShort(response) {
    response.writeHead(200, { ...json, 'content-length': 1000 });
    response.write('{"keys":', () => response.destroy());
  }

  for (const [what, reason, answer] of failing) {
    test(`${what}: tokens are missing, never a 5xx, one line in the log`, { timeout: 120_000 }, async () => {
      const edge = await gateway();
      const published = issuer.answer;
      issuer.answer = answer;
      const replies = await many(20, () => edge.send('/a', own()));
      for (const reply of replies) problem(reply, 400);
      assert.deepEqual(await edge.logged('jwks-failing'), [{ event: 'jwks-failing', reason }]);
      assert.ok(issuer.requests <= 2, `${issuer.requests} loads`);
      assert.ok(!edge.logText().includes('127.0.0.1'), 'the log does not say where the keys are');
      assert.equal((await edge.send('/free')).status, 200);

      issuer.answer = published;
      await until(async () => (await edge.send('/a', own())).status === 200, 'the keys');
      await edge.logged('jwks-recovered');
    });
  }

  test('an issuer that is down', async () => {
    const gone = await startIssuer();
    const { url } = gone;
    await gone.close();
    const limits = [limit('a', { key: ['jwt:sub'], on_missing_key: 'skip' })];
    const edge = await world.gateway({ ...policy(limits), jwt: { algorithms: ['ES256'], jwks: url } });
    assert.deepEqual(statuses(await many(20, () => edge.send('/a', own()))), { 200: 20 });
    assert.deepEqual(await edge.logged('jwks-failing'), [{ event: 'jwks-failing', reason: 'connection' }]);
  });
});
