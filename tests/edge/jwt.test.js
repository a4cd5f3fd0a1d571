// Verified identity: whose bucket a token reaches, and that nothing but its issuer's signature gets there.
import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { left, problem } from './support/fields.js';
import { inSeconds, signer, startIssuer, token } from './support/issuer.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

/** @typedef {import('./support/issuer.js').Signer} Signer */
/** @typedef {import('./support/policy.js').Fields} Fields */

const world = useWorld();

const SECRET = 'a secret of at least thirty-two bytes';
/** @type {Signer} */
const hmac = { alg: 'HS256', key: SECRET };
const rsa = signer('RS256');
const ec = signer('ES256');
const ed = signer('EdDSA');

/** @type {Awaited<ReturnType<typeof startIssuer>>} */
let issuer;
before(async () => {
  issuer = await startIssuer();
});
beforeEach(() => {
  issuer.reset();
  issuer.signers.push(rsa, ec, ed);
});
after(() => issuer.close());

/** By the issuer's keys, unless said. @param {Fields} [fields] */
const jwt = (fields = {}) => ({ algorithms: ['RS256', 'ES256', 'EdDSA'], jwks: issuer.url, ...fields });

/**
 * A limit of 3 a day by `jwt:sub`.
 *
 * @param {{ jwt?: Fields, limit?: Fields, vars?: Record<string, unknown> }} [options]
 */
function gateway({ jwt: rules = jwt(), limit: fields = {}, vars = {} } = {}) {
  const limits = [limit('a', { key: ['jwt:sub'], ...fields }), limit('free', { key: ['ip'], limit: 1e6 })];
  const routes = [route('/a', ['a']), route('/free', ['free'])];
  return world.gateway({ ...policy(limits, routes), jwt: rules }, vars);
}

const bySecret = (fields = {}) => ({ jwt: { algorithms: ['HS256'], secret: 'JWT_SECRET', ...fields } });
const secretly = (fields = {}) => gateway({ ...bySecret(fields), vars: { JWT_SECRET: SECRET } });

/** @param {string} text */
const bearer = (text) => ({ headers: { authorization: `Bearer ${text}` } });

describe('a verified token', () => {
  for (const by of [rsa, ec, ed]) {
    test(`${by.alg} by the key set: its subject is counted, by digest`, async () => {
      const edge = await gateway();
      const lefts = [];
      for (let index = 0; index < 3; index += 1) {
        const reply = await edge.send('/a', bearer(token(by, { sub: 'user-x', exp: inSeconds(60 + index) })));
        lefts.push(left(reply, 'a'));
      }
      assert.deepEqual(lefts, [2, 1, 0]);
      assert.equal((await edge.send('/a', bearer(token(by, { sub: 'user-x' })))).status, 429);
      assert.equal(left(await edge.send('/a', bearer(token(by, { sub: 'user-y' }))), 'a'), 2);
      assert.equal((await world.keys()).filter((key) => key.includes('user-')).length, 0);
      assert.equal(issuer.requests, 1);
      assert.match(String(world.origin.seen[0].headers.authorization), /^Bearer /, 'the origin gets it as it was sent');
    });
  }

  test('HS256 by a secret', async () => {
    const edge = await secretly();
    assert.equal(left(await edge.send('/a', bearer(token(hmac, { sub: 'x' }))), 'a'), 2);
    assert.equal(left(await edge.send('/a', bearer(token(hmac, { sub: 'x', iat: 1 }))), 'a'), 1);
    assert.equal((await edge.send('/a', bearer(token({ ...hmac, key: `${SECRET}.` }, { sub: 'x' })))).status, 400);
  });

  test('a secret that is not set believes nobody, and the log says so', async () => {
    const edge = await gateway(bySecret());
    for (const key of ['', 'undefined', SECRET]) {
      assert.equal((await edge.send('/a', bearer(token({ ...hmac, key }, { sub: 'x' })))).status, 400);
    }
    await edge.logged('no-jwt-secret');
    const short = await gateway({ ...bySecret(), vars: { JWT_SECRET: 'short' } });
    assert.equal((await short.send('/a', bearer(token({ ...hmac, key: 'short' }, { sub: 'x' })))).status, 200);
    await short.logged('short-jwt-secret');
  });

  test('the algorithm is pinned: others are not believed, however well they are signed', async () => {
    const edge = await gateway({ jwt: jwt({ algorithms: ['ES256'] }) });
    assert.equal((await edge.send('/a', bearer(token(ec, { sub: 'x' })))).status, 200);
    for (const by of [rsa, ed, { ...rsa, alg: 'RS512' }]) {
      assert.equal((await edge.send('/a', bearer(token(by, { sub: 'x' })))).status, 400, by.alg);
    }
    const rs = await gateway({ jwt: jwt({ algorithms: ['RS256'] }) });
    assert.equal((await rs.send('/a', bearer(token({ ...rsa, alg: 'RS512' }, { sub: 'x' })))).status, 400);
    const hs = await secretly();
    assert.equal((await hs.send('/a', bearer(token({ ...hmac, alg: 'HS512' }, { sub: 'x' })))).status, 400);
  });

  test('another header carries it bare', async () => {
    const edge = await gateway({ jwt: jwt({ header: 'X-Token' }) });
    const text = token(ec, { sub: 'x' });
    assert.equal(left(await edge.send('/a', { headers: { 'x-token': text } }), 'a'), 2);
    assert.equal(left(await edge.send('/a', { headers: { 'x-token': `Bearer ${text}` } }), 'a'), 1);
    assert.equal((await edge.send('/a', bearer(text))).status, 400);
  });

  test('issuer and audience', async () => {
    const edge = await gateway({ jwt: jwt({ issuer: 'https://i.test', audience: ['api', 'web'] }) });
    const good = { sub: 'x', iss: 'https://i.test', aud: ['other', 'web'] };
    assert.equal((await edge.send('/a', bearer(token(ec, good)))).status, 200);
    assert.equal((await edge.send('/a', bearer(token(ec, { ...good, aud: 'api' })))).status, 200);
    for (const bad of [
      { iss: 'https://i.test/' },
      { iss: undefined },
      { aud: 'else' },
      { aud: [] },
      { aud: undefined },
    ]) {
      assert.equal((await edge.send('/a', bearer(token(ec, { ...good, ...bad })))).status, 400, JSON.stringify(bad));
    }
  });

  test('exp and nbf have their leeway', async () => {
    const edge = await gateway({ jwt: jwt({ leeway: '2m' }), limit: { limit: 1000 } });
    const rows = /** @type {[Record<string, unknown>, number][]} */ ([
      [{ exp: inSeconds(-60) }, 200],
      [{ nbf: inSeconds(60) }, 200],
      [{ exp: inSeconds(-180) }, 400],
      [{ nbf: inSeconds(300) }, 400],
      [{ exp: String(inSeconds(60)) }, 400],
      [{ exp: null }, 400],
    ]);
    for (const [claims, status] of rows) {
      const reply = await edge.send('/a', bearer(token(ec, { sub: 'x', ...claims })));
      assert.equal(reply.status, status, JSON.stringify(claims));
    }
    const usual = await gateway();
    assert.equal((await usual.send('/a', bearer(token(ec, { sub: 'x', exp: inSeconds(-20) })))).status, 200);
    assert.equal((await usual.send('/a', bearer(token(ec, { sub: 'x', exp: inSeconds(-40) })))).status, 400);
    const strict = await gateway({ jwt: jwt({ leeway: '0s' }) });
    assert.equal((await strict.send('/a', bearer(token(ec, { sub: 'x', exp: inSeconds(-1) })))).status, 400);
  });

  test('what a claim may be', async () => {
    const edge = await gateway({ limit: { limit: 1000, key: ['jwt:https://example.com/tenant'] } });
    const claim = (/** @type {string} */ json) =>
      edge.send('/a', bearer(token(ec, `{"https://example.com/tenant":${json},"https:":{"t":1}}`)));
    // Neighbours that JavaScript's numbers cannot tell apart are two subjects.
    for (const json of ['"t"', '"u"', '7', '-7', 'true', '1.5', '9007199254740992', '9007199254740993']) {
      assert.equal(left(await claim(json), 'a'), 999, json);
    }
    assert.equal(left(await claim('"7"'), 'a'), 998, 'the text of a number is that number');
    for (const json of ['""', '"  "', 'null', '[]', '["t"]', '{"t":1}', '1e300', '99999999999999999999']) {
      assert.equal((await claim(json)).status, 400, json);
    }
  });

  test('names the plan and exempts', async () => {
    const fields = { plan: 'jwt:plan', plans: { pro: 50 }, exempt: { 'jwt:role': 'binding:STAFF_ROLE' } };
    const edge = await gateway({ limit: fields, vars: { STAFF_ROLE: 'staff' } });
    assert.equal(left(await edge.send('/a', bearer(token(ec, { sub: 'x', plan: 'pro' }))), 'a'), 49);
    const forged = token({ ...ec, key: signer('ES256').key }, { sub: 'x', plan: 'pro', role: 'staff' });
    assert.equal((await edge.send('/a', bearer(forged))).status, 400);
    const staff = bearer(token(ec, { sub: 'y', role: 'staff' }));
    assert.deepEqual(statuses(await many(9, () => edge.send('/a', staff))), { 200: 9 });
  });

  test('makes no difference to a route whose limits use no claim', async () => {
    const edge = await gateway();
    assert.equal((await edge.send('/free', bearer(token(ec, { sub: 'x' })))).status, 200);
    assert.equal((await edge.send('/free', bearer('not a token'))).status, 200);
    assert.equal(issuer.requests, 0);
  });
});

describe('what is not verified is missing', () => {
  const claims = { sub: 'victim' };
  const [head, payload, signed] = token(rsa, claims).split('.');
  const publicKey = createPublicKey({ key: /** @type {any} */ (rsa.jwk), format: 'jwk' });
  const pem = String(publicKey.export({ type: 'spki', format: 'pem' }));
  /** HS256 by what everybody knows. @param {string} key */
  const confused = (key) => token({ alg: 'HS256', key, kid: 'RS256' }, claims);
  const none = (/** @type {string} */ alg) => `${token({ ...hmac, key: 'x' }, claims, { alg }).replace(/[^.]*$/, '')}`;
  const stranger = signer('RS256');
  const encoded = (/** @type {unknown} */ value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  /** @type {Record<string, string[]>} values of the Authorization header */
  const forged = {
    'no token': [],
    'alg none': [`Bearer ${none('none')}`],
    'alg None': [`Bearer ${none('None')}`],
    'alg none that is signed': [`Bearer ${token(rsa, claims, { alg: 'none' })}`],
    'no alg': [`Bearer ${token(rsa, claims, { alg: undefined })}`],
    'HS256 by the public key in PEM': [`Bearer ${confused(pem)}`],
    'HS256 by the public key in PEM, without its last line break': [`Bearer ${confused(pem.trim())}`],
    'HS256 by the public key as JWK': [`Bearer ${confused(JSON.stringify(rsa.jwk))}`],
    'HS256 by nothing': [`Bearer ${confused('')}`],
    'an algorithm that is not pinned': [`Bearer ${token(rsa, claims, { alg: 'RS512' })}`],
    'another key under a known kid': [`Bearer ${token(stranger, claims)}`],
    'another key under its own kid': [`Bearer ${token({ ...stranger, kid: 'stranger' }, claims)}`],
    'another key without a kid': [`Bearer ${token({ ...stranger, kid: undefined }, claims)}`],
    'a key that the token brings along': [
      `Bearer ${token({ ...stranger, kid: undefined }, claims, { jwk: stranger.jwk })}`,
    ],
    'a key set that the token names': [`Bearer ${token(stranger, claims, { jku: 'http://127.0.0.1:1/jwks' })}`],
    'a kid of another kind': [`Bearer ${token(stranger, claims, { kid: 7 })}`],
    'the key of another algorithm': [`Bearer ${token(rsa, claims, { kid: 'ES256' })}`],
    'another payload': [`Bearer ${head}.${encoded({ sub: 'victim ' })}.${signed}`],
    'another header': [`Bearer ${encoded({ alg: 'RS256', kid: 'RS256', x: 1 })}.${payload}.${signed}`],
    'a cut signature': [`Bearer ${head}.${payload}.${signed.slice(0, -4)}`],
    'no signature': [`Bearer ${head}.${payload}.`],
    'an unknown critical extension': [`Bearer ${token(rsa, claims, { crit: ['x'], x: 1 })}`],
    'an unencoded payload': [`Bearer ${token(rsa, claims, { crit: ['b64'], b64: false })}`],
    expired: [`Bearer ${token(rsa, { ...claims, exp: inSeconds(-3600) })}`],
    'not yet valid': [`Bearer ${token(rsa, { ...claims, nbf: inSeconds(3600) })}`],
    'a payload that is no object': [`Bearer ${token(rsa, '["victim"]')}`],
    'a payload that is no JSON': [`Bearer ${token(rsa, '{"sub":"victim"')}`],
    'no such claim': [`Bearer ${token(rsa, { name: 'victim' })}`],
    '10 KB': [`Bearer ${token(rsa, { ...claims, padding: 'x'.repeat(10_000) })}`],
    'non-ASCII': [`Bearer ${head}.${payload}.${signed}\u00e9`],
    'five parts': [`Bearer ${head}..${payload}.${signed}.x`],
    'two parts': [`Bearer ${head}.${payload}`],
    'another scheme': [`Basic ${head}.${payload}.${signed}`],
    'no scheme': [`${head}.${payload}.${signed}`],
    'a scheme alone': ['Bearer '],
    'one twice in a line': [`Bearer ${head}.${payload}.${signed}, Bearer ${head}.${payload}.${signed}`],
    'two Authorization headers': [`Bearer ${head}.${payload}.${signed}`, `Bearer ${token(stranger, claims)}`],
  };

  test('every forged token is refused by the default, and its subject keeps its quota', async () => {
    const edge = await gateway();
    for (const [what, authorization] of Object.entries(forged)) {
      const reply = await edge.send('/a', { headers: { authorization } });
      assert.match(problem(reply, 400).detail, /jwt:sub/, what);
    }
    assert.equal(world.store.stats.requests, 0);
    assert.equal(world.origin.seen.length, 0);
    assert.equal(left(await edge.send('/a', bearer(token(rsa, claims))), 'a'), 2);
    assert.equal(issuer.requests, 1);
    assert.ok(!edge.logText().includes('victim'));
  });

  test('skip and share: neither reaches the bucket of the subject it names', async () => {
    const skipping = await gateway({ limit: { on_missing_key: 'skip' } });
    for (const [what, authorization] of Object.entries(forged)) {
      assert.equal((await skipping.send('/a', { headers: { authorization } })).status, 200, what);
    }
    assert.equal(world.store.stats.requests, 0);
    const sharing = await gateway({ limit: { on_missing_key: 'share', limit: 1000 } });
    let count = 1000;
    for (const [what, authorization] of Object.entries(forged)) {
      count -= 1;
      assert.equal(left(await sharing.send('/a', { headers: { authorization } }), 'a'), count, what);
    }
    assert.equal(left(await sharing.send('/a', bearer(token(rsa, claims))), 'a'), 999);
  });

  for (const on_missing_key of ['deny', 'share']) {
    test(`${on_missing_key}: a thousand forged tokens for a user leave the user's full quota`, async () => {
      const edge = await gateway({ limit: { on_missing_key } });
      const forgery = bearer(token(stranger, claims));
      const replies = await many(1000, () => edge.send('/a', forgery), 64);
      assert.deepEqual(statuses(replies), on_missing_key === 'deny' ? { 400: 1000 } : { 200: 3, 429: 997 });
      const own = bearer(token(rsa, claims));
      assert.deepEqual(statuses(await many(9, () => edge.send('/a', own))), { 200: 3, 429: 6 });
      assert.equal(issuer.requests, 1);
    });
  }

  test('the log names each reason once a minute', async () => {
    const edge = await gateway();
    await many(50, () => edge.send('/a', bearer(token(stranger, claims))));
    const lines = await edge.logged('jwt-refused');
    assert.deepEqual(lines, [{ event: 'jwt-refused', reason: 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED' }]);
  });
});

describe('the decision API', () => {
  test('takes a claim as a part of the subject, which it trusts', async () => {
    const edge = await gateway();
    const ask = async (/** @type {Record<string, string>} */ subject) =>
      (await edge.check({ limits: ['a'], subject })).json().limits[0].remaining;
    assert.equal(await ask({ 'jwt:sub': 'x' }), 2);
    assert.equal(left(await edge.send('/a', bearer(token(rsa, { sub: 'x' }))), 'a'), 1);
    assert.equal(await ask({ 'jwt:sub': 'x' }), 0);
    assert.equal((await edge.check({ limits: ['a'], subject: {} })).status, 400);
  });

  test('verifies the token of a described request', async () => {
    const edge = await gateway();
    const ask = (/** @type {Record<string, string>} */ headers) =>
      edge.check({ method: 'GET', url: 'https://api.test/a', headers });
    const reply = await ask({ Authorization: `Bearer ${token(rsa, { sub: 'x' })}` });
    assert.equal(reply.json().limits[0].remaining, 2);
    assert.equal(left(await edge.send('/a', bearer(token(rsa, { sub: 'x' }))), 'a'), 1);
    assert.equal((await ask({ authorization: `Bearer ${token(signer('RS256'), { sub: 'x' })}` })).status, 400);
    assert.equal((await ask({})).status, 400);
  });
});
