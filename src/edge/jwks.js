// An issuer's public keys: loaded once an isolate, kept for a bounded time, and never asked for more often than the
// issuer can bear, whatever tokens clients make up. Requests share the keys, and never a promise: the platform lets no
// request wait for another's I/O, so one loads and those that cannot do without look again by timers of their own.

import { waitUntil } from 'cloudflare:workers';
import { createLocalJWKSet } from 'jose';

/** Younger keys are used as they are; older ones are loaded again beside the requests. */
const FRESH_MS = 600_000;
/** Older keys are not used: how long an issuer may be away, and how long a key it took back can live on. */
const USABLE_MS = 3_600_000;
/** Shortest time from one load to the next, and the longest that failures make of it. */
const COOLDOWN_MS = 30_000;
/** Time from the first failure to the next attempt; doubles with each that follows. */
const RETRY_MS = 1_000;
/** Over connect, headers and body. */
const TIMEOUT_MS = 2_000;
/** Longest key set that is read, in bytes; a large provider's has 20 KB. */
const LONGEST = 262_144;
/** Most keys of a set. */
const MOST_KEYS = 256;
/** How often those who wait for another's load look again. */
const LOOK_MS = 5;

/** @typedef {ReturnType<typeof createLocalJWKSet>} Keys */

/** @param {Record<string, unknown>} line */
const log = (line) => console.log(JSON.stringify(line));

export class KeySet {
  /** @type {Keys | undefined} */
  #keys;
  #loadedMs = Number.NEGATIVE_INFINITY;
  /** No load before this. */
  #nextMs = Number.NEGATIVE_INFINITY;
  /** A load is under way until this at the latest: a request that went away in the middle ends none. */
  #loadingUntilMs = Number.NEGATIVE_INFINITY;
  #failures = 0;

  /** @param {string} url */
  constructor(url) {
    this.url = url;
  }

  /**
   * The keys as they are known, loaded first where they are unknown or too old.
   *
   * @returns {Promise<Keys | undefined>}
   */
  async keys() {
    if (this.#age() >= USABLE_MS) await this.#loaded();
    else if (this.#age() >= FRESH_MS && this.#mayLoad()) waitUntil(this.#load());
    return this.#usable();
  }

  /**
   * Keys that are newer than those that lack a token's.
   *
   * @param {Keys} known
   * @returns {Promise<Keys | undefined>} undefined while the issuer must not be asked again
   */
  async newer(known) {
    await this.#loaded();
    const keys = this.#usable();
    return keys === known ? undefined : keys;
  }

  #age() {
    return Date.now() - this.#loadedMs;
  }

  #usable() {
    return this.#age() < USABLE_MS ? this.#keys : undefined;
  }

  #isLoading() {
    return Date.now() < this.#loadingUntilMs;
  }

  #mayLoad() {
    return !this.#isLoading() && Date.now() >= this.#nextMs;
  }

  /** Loads, or waits for a load that is under way; neither while it is too early for one. */
  async #loaded() {
    if (this.#mayLoad()) {
      const load = this.#load();
      // What has begun ends for the others too, though this client may go away.
      waitUntil(load);
      await load;
    }
    while (this.#isLoading()) await scheduler.wait(LOOK_MS);
  }

  async #load() {
    this.#loadingUntilMs = Date.now() + TIMEOUT_MS;
    const reason = await fetchKeys(this.url).then(
      (keys) => {
        this.#keys = keys;
        return undefined;
      },
      (error) =>
        error instanceof Unusable ? error.message : error?.name === 'TimeoutError' ? 'deadline' : 'connection',
    );
    const now = Date.now();
    this.#loadingUntilMs = Number.NEGATIVE_INFINITY;
    if (reason === undefined) {
      if (this.#failures > 0) log({ event: 'jwks-recovered' });
      this.#failures = 0;
      this.#loadedMs = now;
      this.#nextMs = now + COOLDOWN_MS;
      return;
    }
    if (this.#failures === 0) log({ event: 'jwks-failing', reason });
    this.#nextMs = now + Math.min(COOLDOWN_MS, RETRY_MS * 2 ** this.#failures);
    this.#failures += 1;
  }
}

/** Why a set that came cannot be used, in a word for the log. */
class Unusable extends Error {}

/**
 * @param {string} url
 * @returns {Promise<Keys>}
 */
async function fetchKeys(url) {
  const response = await fetch(url, {
    headers: { accept: 'application/jwk-set+json, application/json' },
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (response.status !== 200) {
    response.body?.cancel().catch(() => {});
    throw new Unusable(response.status >= 300 && response.status < 400 ? 'redirect' : `status ${response.status}`);
  }
  const text = await bounded(response);
  try {
    const set = JSON.parse(text);
    if (set.keys.length > MOST_KEYS) throw new Unusable('too many keys');
    return createLocalJWKSet(set);
  } catch (error) {
    throw error instanceof Unusable ? error : new Unusable('no key set');
  }
}

/**
 * The body piece by piece, since a length that is announced is that of a compressed one.
 *
 * @param {Response} response
 */
async function bounded(response) {
  const decoder = new TextDecoder();
  let text = '';
  let read = 0;
  for await (const chunk of response.body ?? []) {
    read += chunk.byteLength;
    if (read > LONGEST) throw new Unusable('too long');
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
