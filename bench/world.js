// What the measurements run on: one Redis, the store endpoint, the origin and the load in processes of their own, and
// as many workerd processes as a section asks for.

import { fork, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient } from '@redis/client';
import { build } from 'esbuild';

import { startRedis } from '../dev/redis.js';
import { startWorkerd } from '../dev/workerd.js';

/** @typedef {import('node:child_process').ChildProcess} ChildProcess */
/** @typedef {import('../dev/workerd.js').Gateway} Worker */
/** @typedef {import('./load.js').Job} Job */
/** @typedef {import('./load.js').Result} Result */
/** @typedef {Awaited<ReturnType<typeof openWorld>>} World */

const bench = dirname(fileURLToPath(import.meta.url));
const bundles = join(bench, '..', 'target', 'bench');
const TOKEN = 'local';
export const ADMIN_TOKEN = 'bench-admin-token';
const FLOOR_SCRIPT = "return redis.call('INCR', KEYS[1])";

/** Peers that are made of packages; the others are served as they stand. */
const BUNDLED = ['upstash', 'upstash-one'];

export async function openWorld() {
  const redis = await startRedis();
  const db = await createClient({ url: redis.url }).connect();
  const load = startLoad();
  /** @type {Set<Worker>} */
  const workers = new Set();
  /** @type {ChildProcess[]} */
  const children = [load.child];
  process.on('exit', () => {
    for (const child of children) child.kill();
  });
  /** @type {Map<number, Promise<string>>} */
  const stores = new Map();
  /** @type {Map<number, Promise<string>>} */
  const origins = new Map();

  await bundle();
  await db.sendCommand(['SCRIPT', 'LOAD', FLOOR_SCRIPT]);

  /** @param {string} script @param {string[]} args @param {RegExp} ready */
  async function background(script, args, ready) {
    const child = spawn(process.execPath, [join(bench, script), ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    return said(child, ready);
  }

  /** The store endpoint's URL; one process for each delay. @param {number} [delayMs] */
  function store(delayMs = 0) {
    const args = ['--port', '0', '--redis', redis.url, '--token', TOKEN, '--delay', String(delayMs)];
    const running = stores.get(delayMs) ?? background('../dev/store/main.js', args, /^store: (\S+)/m);
    stores.set(delayMs, running);
    return running;
  }

  /** The origin's URL; one process for each delay. @param {number} [delayMs] */
  function origin(delayMs = 0) {
    const begin = () => background('origin.js', [String(delayMs)], /^origin: (\d+)/m);
    const running = origins.get(delayMs) ?? begin().then((port) => `http://127.0.0.1:${port}`);
    origins.set(delayMs, running);
    return running;
  }

  /** @param {Parameters<typeof startWorkerd>[0]} options */
  async function start(options) {
    const worker = await startWorkerd(options);
    workers.add(worker);
    return worker;
  }

  return {
    redis,
    db,
    run: load.run,
    store,
    origin,

    /** The built Worker. @param {unknown} policy @param {{ storeUrl?: string }} [options] */
    async gateway(policy, { storeUrl } = {}) {
      const vars = { ...credentials(storeUrl ?? (await store())), ADMIN_TOKEN, POLICY: policy };
      return start({ vars });
    },

    /** A peer by its file's name. @param {string} name @param {Record<string, unknown>} [vars] */
    async peer(name, vars = {}) {
      const directory = BUNDLED.includes(name) ? bundles : join(bench, 'peers');
      const sha = createHash('sha1').update(FLOOR_SCRIPT).digest('hex');
      return start({
        modules: { 'index.js': join(directory, `${name}.js`) },
        vars: { ...credentials(await store()), SCRIPT_SHA: sha, ...vars },
      });
    },

    /** @param {Worker} worker */
    async stop(worker) {
      workers.delete(worker);
      await worker.stop();
    },

    async stopWorkers() {
      await Promise.all([...workers].map((worker) => worker.stop()));
      workers.clear();
    },

    async close() {
      await this.stopWorkers();
      // Redis last, or the stores would say that it has gone.
      await Promise.all(children.map(ended));
      db.destroy();
      await redis.stop();
    },
  };
}

/** @param {string} url */
function credentials(url) {
  return { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: TOKEN };
}

async function bundle() {
  mkdirSync(bundles, { recursive: true });
  await build({
    entryPoints: BUNDLED.map((name) => join(bench, 'peers', `${name}.js`)),
    outdir: bundles,
    bundle: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker'],
    minify: true,
    logLevel: 'warning',
  });
}

/** @param {ChildProcess} child */
function ended(child) {
  if (child.exitCode !== null || child.signalCode !== null) return undefined;
  const gone = once(child, 'exit');
  child.kill();
  return gone;
}

/** @param {ChildProcess} child @param {RegExp} ready @returns {Promise<string>} its first group */
function said(child, ready) {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
      const found = ready.exec(text)?.[1];
      if (found) resolve(found);
    });
    child.once('exit', (code) => reject(new Error(`${child.spawnargs[1]} ended with ${code}`)));
  });
}

function startLoad() {
  const child = fork(join(bench, 'load.js'));
  /** @type {Map<number, { resolve: (result: Result) => void, reject: (error: Error) => void }>} */
  const waiting = new Map();
  let last = 0;
  child.on('message', (/** @type {{ id: number, result: Result, error?: string }} */ { id, result, error }) => {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error) reject?.(new Error(`load: ${error}`));
    else resolve?.(result);
  });
  /** @param {Job} job @returns {Promise<Result>} */
  const run = (job) =>
    new Promise((resolve, reject) => {
      last += 1;
      waiting.set(last, { resolve, reject });
      child.send({ id: last, job });
    });
  return { child, run };
}
