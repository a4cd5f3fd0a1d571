// An issuer of tokens: keys of each kind, tokens signed by Node's own crypto, and a server for the public halves.
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

/** @typedef {import('node:crypto').KeyObject} KeyObject */

/**
 * @typedef {object} Signer
 * @property {string} alg
 * @property {string} [kid]
 * @property {KeyObject | string} key private, or the secret of HS256
 * @property {import('node:crypto').JsonWebKey} [jwk] the public half, as a key set holds it
 */

const encode = (/** @type {unknown} */ value) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Seconds since the epoch, so many from now. @param {number} [seconds] */
export const inSeconds = (seconds = 0) => Math.floor(Date.now() / 1000) + seconds;

/** @type {Record<string, () => { privateKey: KeyObject, publicKey: KeyObject }>} */
const PAIRS = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: () => generateKeyPairSync('ed25519'),
};

/**
 * A new key pair.
 *
 * @param {string} alg
 * @param {string} [kid] none: neither its tokens nor the key set say which it is
 * @returns {Signer}
 */
export function signer(alg, kid = alg) {
  const { privateKey, publicKey } = PAIRS[alg]();
  const jwk = { ...publicKey.export({ format: 'jwk' }), use: 'sig', ...(kid && { kid }) };
  return { alg, key: privateKey, jwk, ...(kid && { kid }) };
}

/**
 * @param {Signer} by
 * @param {Record<string, unknown> | string} claims or the payload's text
 * @param {Record<string, unknown>} [header] more of the header, or other than usual
 */
export function token(by, claims, header = {}) {
  const head = encode({ alg: by.alg, typ: 'JWT', ...(by.kid && { kid: by.kid }), ...header });
  const body = typeof claims === 'string' ? Buffer.from(claims).toString('base64url') : encode(claims);
  return `${head}.${body}.${signature(by, `${head}.${body}`)}`;
}

/** @param {Signer} by @param {string} text */
function signature({ alg, key }, text) {
  const data = Buffer.from(text);
  const hash = alg === 'EdDSA' ? null : `sha${alg.slice(2)}`;
  if (alg.startsWith('HS')) return createHmac(String(hash), key).update(data).digest('base64url');
  const options = { key: /** @type {KeyObject} */ (key), dsaEncoding: /** @type {const} */ ('ieee-p1363') };
  return sign(hash, data, options).toString('base64url');
}

/** @typedef {(response: import('node:http').ServerResponse, path: string) => void} Handler */

/** A key set's server. `answer` may be replaced; it begins with the keys of `signers`. */
export async function startIssuer() {
  /** @type {Signer[]} */
  const signers = [];
  const issuer = {
    url: '',
    signers,
    /** Requests so far. */
    requests: 0,
    /** @type {Handler} */
    answer: published,
    /** As it was in the beginning, without a signer. */
    reset() {
      signers.length = 0;
      issuer.requests = 0;
      issuer.answer = published;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  /** @param {import('node:http').ServerResponse} response */
  function published(response) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ keys: signers.map(({ jwk }) => jwk) }));
  }
  const server = createServer((request, response) => {
    issuer.requests += 1;
    issuer.answer(response, String(request.url));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  issuer.url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}/jwks`;
  return issuer;
}
