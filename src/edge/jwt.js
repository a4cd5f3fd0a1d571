// Verifying a token: signature, algorithm, times, issuer and audience. What is not verified is as if it were not there.

import { base64url, errors, jwtVerify } from 'jose';
import { KeySet } from './jwks.js';

/** Most keys tried for a token that does not say which is its own: each costs a signature's time. */
const MOST_TRIED = 8;
/** How often the log names one and the same reason why tokens are not believed. */
const NAMED_AGAIN_MS = 60_000;

/**
 * @typedef {object} Rules of the policy's `[jwt]`
 * @property {string[]} algorithms
 * @property {string | null} jwks URL of the key set
 * @property {string | null} secret name of the binding with the key of HS256
 * @property {string[]} issuer any of these; none: not checked
 * @property {string[]} audience any of these; none: not checked
 * @property {number} leeway_ms of `exp` and `nbf`
 */

/** @typedef {(token: string) => Promise<string | undefined>} Verify answers the payload as it was signed */

/** @type {KeySet | undefined} Outlives a new configuration that has the same keys. */
let keySet;

/**
 * @param {string | undefined} text {@link Rules} as JSON
 * @param {Record<string, unknown>} env
 * @returns {Verify}
 */
export function verifierOf(text, env) {
  if (text === undefined) return async () => undefined;
  /** @type {Rules} */
  const rules = JSON.parse(text);
  const options = {
    algorithms: rules.algorithms,
    clockTolerance: rules.leeway_ms / 1000,
    ...(rules.issuer.length > 0 && { issuer: rules.issuer }),
    ...(rules.audience.length > 0 && { audience: rules.audience }),
  };
  const verified = rules.jwks === null ? bySecret(env[rules.secret ?? ''], options) : byKeySet(rules.jwks, options);
  /** @type {Map<string, number>} */
  const named = new Map();
  return async (token) => {
    try {
      await verified(token);
      // Not what `jwtVerify` parsed: JavaScript would round a large number, and two subjects would be one.
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(base64url.decode(token.split('.')[1]));
    } catch (error) {
      const reason = error instanceof errors.JOSEError ? error.code : String(/** @type {Error} */ (error).name);
      if (Date.now() - (named.get(reason) ?? 0) >= NAMED_AGAIN_MS) {
        named.set(reason, Date.now());
        console.log(JSON.stringify({ event: 'jwt-refused', reason }));
      }
      return undefined;
    }
  };
}

/**
 * @param {unknown} secret
 * @param {import('jose').JWTVerifyOptions} options
 * @returns {(token: string) => Promise<unknown>} rejects where the token is not to be believed
 */
function bySecret(secret, options) {
  /** @type {CryptoKey | undefined} */
  let key;
  return async (token) => {
    if (typeof secret !== 'string' || secret === '') throw new errors.JWKInvalid('no secret');
    key ??= await crypto.subtle.importKey(
      'raw',
      new TextEncoder().encode(secret),
      { name: 'HMAC', hash: 'SHA-256' },
      false,
      ['verify'],
    );
    return jwtVerify(token, key, options);
  };
}

/**
 * @param {string} url
 * @param {import('jose').JWTVerifyOptions} options
 * @returns {(token: string) => Promise<unknown>} rejects where the token is not to be believed
 */
function byKeySet(url, options) {
  if (keySet?.url !== url) keySet = new KeySet(url);
  const set = keySet;
  return async (token) => {
    const keys = await set.keys();
    if (!keys) throw new errors.JWKSNoMatchingKey();
    try {
      return await byKeys(keys, token, options);
    } catch (error) {
      const newer = error instanceof errors.JWKSNoMatchingKey ? await set.newer(keys) : undefined;
      if (!newer) throw error;
      return byKeys(newer, token, options);
    }
  };
}

/**
 * @param {import('./jwks.js').Keys} keys
 * @param {string} token
 * @param {import('jose').JWTVerifyOptions} options
 */
async function byKeys(keys, token, options) {
  try {
    return await jwtVerify(token, keys, options);
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    let tried = 0;
    for await (const key of error) {
      tried += 1;
      if (tried > MOST_TRIED) break;
      try {
        return await jwtVerify(token, key, options);
      } catch (wrong) {
        if (!(wrong instanceof errors.JWSSignatureVerificationFailed)) throw wrong;
      }
    }
    throw new errors.JWSSignatureVerificationFailed();
  }
}
