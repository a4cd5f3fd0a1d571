// How long the issuer's keys are kept, and how often it is asked: the Worker's own code with a clock of the test's.
// The platform's two functions that Node has not are stood in for; fetch, WebCrypto and the issuer are real.
import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { after, afterEach, before, beforeEach, mock, test } from 'node:test';
import { scheduler } from 'node:timers/promises';
import { signer, startIssuer, token } from './support/issuer.js';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** @type {Promise<unknown>[]} What goes on beside the requests. */
const beside = [];
Object.assign(globalThis, { scheduler, sluicegateBeside: beside });
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'cloudflare:workers'
      ? {
          url: 'data:text/javascript,export const waitUntil = (promise) => void globalThis.sluicegateBeside.push(promise)',
          shortCircuit: true,
        }
      : next(specifier, context),
});

/** @type {any} */
let jwt;
/** @type {Awaited<ReturnType<typeof startIssuer>>} */
let issuer;
/** @type {string[]} */
let log = [];
before(async () => {
  jwt = await import(new URL('../../src/edge/jwt.js', import.meta.url).href);
  issuer = await startIssuer();
});
beforeEach(() => {
  issuer.reset();
  log = [];
  mock.method(console, 'log', (/** @type {string} */ line) => log.push(line));
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
});
afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});
after(() => issuer.close());

const old = signer('ES256', 'old');
const fresh = signer('ES256', 'new');
/** @param {import('./support/issuer.js').Signer} by */
const of = (by) => token(by, { sub: 'x' });

let run = 0;
/** A verifier with a cache of its own, since it is kept by URL. */
function verifier() {
  run += 1;
  const rules = { algorithms: ['ES256'], secret: null, issuer: [], audience: [], leeway_ms: 0 };
  const verify = jwt.verifierOf(JSON.stringify({ ...rules, jwks: `${issuer.url}?${run}` }), {});
  return async (/** @type {string} */ text) => {
    const believed = (await verify(text)) !== undefined;
    await Promise.all(beside.splice(0));
    return believed;
  };
}

const down = () => {
  issuer.answer = (response) => response.writeHead(503).end();
};

test('a new key is believed at once where the last load is half a minute ago, the old one until then', async () => {
  issuer.signers.push(old);
  const verify = verifier();
  assert.equal(await verify(of(old)), true);
  issuer.signers.splice(0, 1, fresh);
  mock.timers.tick(29 * SECOND);
  assert.equal(await verify(of(fresh)), false);
  assert.equal(issuer.requests, 1);
  mock.timers.tick(SECOND);
  assert.equal(await verify(of(fresh)), true);
  assert.equal(await verify(of(old)), false, 'a key that was taken back');
  assert.equal(issuer.requests, 2);
});

test('an hour of made up kids is at most two loads a minute', async () => {
  issuer.signers.push(old);
  const verify = verifier();
  const forged = token(fresh, { sub: 'x' }, { kid: 'made-up' });
  for (let second = 0; second < 3600; second += 1) {
    assert.equal(await verify(forged), false);
    mock.timers.tick(SECOND);
  }
  assert.equal(issuer.requests, 120);
});

test('known keys are loaded again after ten minutes, beside the request', async () => {
  issuer.signers.push(old);
  const verify = verifier();
  for (const [minutes, loads] of [
    [0, 1],
    [9, 1],
    [2, 2],
    [9, 2],
    [2, 3],
  ]) {
    mock.timers.tick(minutes * MINUTE);
    assert.equal(await verify(of(old)), true);
    assert.equal(issuer.requests, loads, `after ${minutes} minutes more`);
  }
});

test('while the issuer is away, known keys are used for an hour after they were loaded, and no longer', async () => {
  issuer.signers.push(old);
  const verify = verifier();
  assert.equal(await verify(of(old)), true);
  const published = issuer.answer;
  down();
  for (let minute = 1; minute < 60; minute += 1) {
    mock.timers.tick(MINUTE);
    assert.equal(await verify(of(old)), true, `minute ${minute}`);
  }
  mock.timers.tick(MINUTE);
  assert.equal(await verify(of(old)), false);
  assert.deepEqual(
    log.map((line) => JSON.parse(line).event),
    ['jwks-failing', 'jwt-refused'],
  );
  issuer.answer = published;
  mock.timers.tick(30 * SECOND);
  assert.equal(await verify(of(old)), true);
  assert.equal(JSON.parse(log[2]).event, 'jwks-recovered');
});

test('failures are tried again after 1, 2, 4, 8, 16 and then every 30 seconds', async () => {
  down();
  const verify = verifier();
  const tried = [];
  for (let second = 0; second <= 121; second += 1) {
    const before_ = issuer.requests;
    assert.equal(await verify(of(old)), false);
    if (issuer.requests > before_) tried.push(second);
    mock.timers.tick(SECOND);
  }
  assert.deepEqual(tried, [0, 1, 3, 7, 15, 31, 61, 91, 121]);
  assert.equal(log.filter((line) => JSON.parse(line).event === 'jwks-failing').length, 1);
});
