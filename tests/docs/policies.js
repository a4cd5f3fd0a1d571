// TOML in the pages: policies and pieces of them by the checker, pieces of wrangler.toml by wrangler's own schema.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { experimental_readRawConfig } from 'wrangler';
import { aboutAMinute, CALM_BREAKER } from '../edge/support/policy.js';
import { root } from './pages.js';

/** @typedef {import('./pages.js').Page} Page */

const CHECKER = resolve(root, process.env.CARGO_TARGET_DIR ?? 'target', 'debug', 'sluicegate-check');

export function buildChecker() {
  execFileSync('cargo', ['build', '--quiet', '--locked', '--bin', 'sluicegate-check'], { cwd: root, stdio: 'inherit' });
}

/** @param {string[]} args @returns {Promise<string>} what the checker prints; its errors are thrown */
export async function check(...args) {
  return (await promisify(execFile)(CHECKER, args, { cwd: root })).stdout;
}

/** A block says so in its first line. @param {string} text */
export const isWranglers = (text) => text.startsWith('# wrangler.toml\n');

/** @param {string} name @param {string} key */
const stub = (name, key) =>
  `[[limits]]\nname = "${name}"\nalgorithm = "sliding-window"\nlimit = 60\nwindow = "1m"\nkey = ["${key}"]\non_store_error = "open"`;

/**
 * A piece of a policy, with as little around it as makes it whole: version and origin, the limits that its routes name
 * and it does not show, and for `[jwt]` a limit that reads a claim.
 *
 * @param {string} text
 */
export function whole(text) {
  if (/^version = /m.test(text)) return text;
  const shown = [...text.matchAll(/^name = "(.+?)"/gm)].map(([, name]) => name);
  const named = [...text.matchAll(/^limits = \[(.*)\]/gm)].flatMap(([, list]) => list.match(/[\w-]+/g) ?? []);
  const limits = named.filter((name) => !shown.includes(name)).map((name) => stub(name, 'ip'));
  if (/^\[jwt\]/m.test(text) && !text.includes('"jwt:')) limits.push(stub('claim', 'jwt:sub'));
  const origin = /^\[gateway\]/m.test(text) ? '' : 'gateway.origin = "binding:API"';
  return ['version = 1', origin, text, ...limits].join('\n');
}

/**
 * @param {string} text of a policy, or a piece of one
 * @param {string} dir for the file
 * @returns {Promise<any>} as the POLICY var takes it
 */
export async function policyOf(text, dir) {
  const file = join(dir, 'policy.toml');
  writeFileSync(file, whole(text));
  return JSON.parse(await check(file, '--canonical'));
}

/**
 * The policy for a busy machine: time for the store, no breaker, and no window of a minute that ends while it is looked at.
 *
 * @param {any} policy
 */
export function calm(policy) {
  const limits = policy.limits.map((/** @type {any} */ limit) =>
    limit.window === '1m' && limit.algorithm !== 'token-bucket' ? { ...limit, window: aboutAMinute().text } : limit,
  );
  return { ...policy, limits, store: { ...policy.store, timeout: '10s', breaker: CALM_BREAKER } };
}

/** @param {string} text @param {string} dir @returns {any} */
function parsed(text, dir) {
  const file = join(dir, 'wrangler.toml');
  writeFileSync(file, text);
  return experimental_readRawConfig({ config: file }).rawConfig;
}

const json = (/** @type {string} */ file) => JSON.parse(readFileSync(join(root, file), 'utf8'));
const schemas = { wrangler: json('node_modules/wrangler/config-schema.json'), policy: json('policy.schema.json') };
const wranglers = new Ajv({ strict: false, allErrors: true }).addSchema(schemas.wrangler, 'wrangler');
const policys = new Ajv2020({ strict: false, allErrors: true }).addSchema(schemas.policy, 'policy');

/** A piece of wrangler.toml, behind ours. @param {string} text @param {string} dir */
export function checkWranglers(text, dir) {
  const config = parsed(`${readFileSync(join(root, 'wrangler.toml'), 'utf8')}\n${text}`, dir);
  assert.ok(wranglers.validate('wrangler', config), wranglers.errorsText());
}

/**
 * Where in a schema fields of a name stand, as JSON pointers.
 *
 * @param {any} schema
 * @param {string} name
 * @param {string} [at]
 * @returns {string[]}
 */
function places(schema, name, at = '') {
  if (schema === null || typeof schema !== 'object') return [];
  const here = schema.properties && Object.hasOwn(schema.properties, name) ? [`${at}/properties/${name}`] : [];
  const step = (/** @type {string} */ key) =>
    `${at}/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`;
  return [...here, ...Object.entries(schema).flatMap(([key, value]) => places(value, name, step(key)))];
}

/**
 * A field with its value in a sentence, `limit = 20` or `gateway.cors = []`: some table has it, and takes the value.
 *
 * @param {string} text
 * @param {string} dir
 */
export function checkField(text, dir) {
  let value = parsed(text, dir);
  let name = '';
  for (const step of text.slice(0, text.indexOf(' =')).split('.')) {
    name = step;
    value = value[step];
  }
  const takes = (/** @type {any} */ ajv, /** @type {'wrangler' | 'policy'} */ schema) =>
    places(schemas[schema], name).some((at) => ajv.validate({ $ref: `${schema}#${at}` }, value));
  assert.ok(takes(policys, 'policy') || takes(wranglers, 'wrangler'), `no table has a field ${name} that takes this`);
}
