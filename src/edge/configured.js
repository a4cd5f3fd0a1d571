// What the bindings come to: the core's configuration, and what of it this side does. One for the isolate, made anew when
// the bindings or the core are others.

import { pointsTo } from './analytics.js';
import { core, life } from './core.js';
import { verifierOf } from './jwt.js';
import { watch } from './reload.js';

/**
 * @typedef {object} Store
 * @property {string} url
 * @property {Headers} headers
 */

/** @type {Record<string, unknown> | undefined} The bindings that the core is configured for. */
let configured;
/** The life of the core that is. */
let configuredLife = life;
/** @type {Store | undefined} */
export let store;
/** @type {ReturnType<typeof watch> | undefined} Where POLICY_KV is bound. */
export let policyKv;
/** @type {((points: string) => void) | undefined} Writes data points, where Analytics Engine is bound. */
export let analytics;
/** @type {string | undefined} What tokens are verified by, in the policy in force. */
let tokenRules;
/** @type {import('./jwt.js').Verify} */
export let verify;
/** Whether the policy lets scripts of other origins read answers of ours. */
export let opensAnswers = false;

/** Configures the core, where it is not configured for these bindings. @param {Record<string, unknown>} env */
export function ready(env) {
  if (configured !== env || configuredLife !== life) configure(env);
}

/** @param {Record<string, unknown>} env */
function configure(env) {
  const url = textOf(env.UPSTASH_REDIS_REST_URL)?.trim();
  const token = textOf(env.UPSTASH_REDIS_REST_TOKEN);
  store = url ? { url, headers: credentials(token ?? '') } : undefined;
  analytics = pointsTo(env.ANALYTICS);
  /** @type {Record<string, string>} */
  const texts = {};
  const queues = [];
  for (const [name, value] of Object.entries(env)) {
    if (typeof (/** @type {any} */ (value)?.send) === 'function') queues.push(name);
    if (typeof value === 'string' && name !== 'UPSTASH_REDIS_REST_TOKEN') texts[name] = value;
  }
  core.configure(
    JSON.stringify({
      store_url: url,
      has_token: token !== undefined,
      origin: textOf(env.ORIGIN),
      policy: env.POLICY,
      admin_token: textOf(env.ADMIN_TOKEN),
      key_secret: textOf(env.KEY_SECRET),
      analytics: analytics !== undefined,
      seed: crypto.randomUUID() + crypto.randomUUID(),
      texts,
      queues: queues.join(' '),
    }),
  );
  policyKv = env.POLICY_KV ? watch(env.POLICY_KV, env.POLICY_KV_SECONDS, () => readRules(env)) : undefined;
  tokenRules = undefined;
  readRules(env);
  configured = env;
  configuredLife = life;
}

/** Asks what of the policy in force this side does. @param {Record<string, unknown>} env */
function readRules(env) {
  opensAnswers = core.cors(undefined) !== undefined;
  const rules = core.token_rules();
  // Keys that were fetched are kept for as long as the rules stay as they are.
  if (verify === undefined || rules !== tokenRules) verify = verifierOf(rules, env);
  tokenRules = rules;
}

/** @param {string} token */
function credentials(token) {
  const headers = new Headers({ 'content-type': 'application/json' });
  try {
    headers.set('authorization', `Bearer ${token}`);
  } catch {
    // No header can hold it. The store is asked without one, and says what it thinks of that.
  }
  return headers;
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === 'string' ? value : undefined;
}
