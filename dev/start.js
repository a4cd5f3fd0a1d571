// Everything on this machine: Redis, the local store endpoint, a demo origin and the gateway. Ctrl-C stops all of it.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare';

import './build.js';
import { startOrigin } from './origin.js';
import { startRedis } from './redis.js';
import { startStore } from './store/server.js';
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS } from './workerd.js';

const build = join(dirname(fileURLToPath(import.meta.url)), '..', 'build');
const [GATEWAY, ORIGIN] = [8787, 8081];
const ADMIN_TOKEN = 'local-admin';

/** @type {(() => Promise<unknown>)[]} */
const started = [];
let stopping = false;

async function stop(code = 0) {
  if (stopping) return;
  stopping = true;
  for (const end of started.reverse()) await end().catch(() => {});
  process.exit(code);
}
process.on('SIGINT', () => stop());
process.on('SIGTERM', () => stop());

/**
 * @template T
 * @param {string} what
 * @param {Promise<T>} starting
 * @param {(it: T) => Promise<unknown>} end
 * @returns {Promise<T>}
 */
async function start(what, starting, end) {
  try {
    const it = await starting;
    started.push(() => end(it));
    return it;
  } catch (error) {
    console.error(`${what} did not start: ${error instanceof Error ? error.message : error}`);
    await stop(1);
    throw error;
  }
}

const redis = await start('Redis', startRedis(), (it) => it.stop());
const store = await start('the local store', startStore({ redis: redis.url }), (it) => it.close());
await start(`the demo origin on port ${ORIGIN}`, startOrigin(ORIGIN), async (it) => it.close());
const gateway = new Miniflare(
  convertV4MiniflareOptions({
    modules: [
      { type: 'ESModule', path: 'index.js', contents: readFileSync(join(build, 'index.js'), 'utf8') },
      { type: 'CompiledWasm', path: 'index_bg.wasm', contents: readFileSync(join(build, 'index_bg.wasm')) },
    ],
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: COMPATIBILITY_FLAGS,
    host: '127.0.0.1',
    port: GATEWAY,
    cf: false,
    log: new Log(LogLevel.ERROR),
    bindings: { UPSTASH_REDIS_REST_URL: store.url, UPSTASH_REDIS_REST_TOKEN: store.token, ADMIN_TOKEN },
  }),
);
await start(`the gateway on port ${GATEWAY}`, gateway.ready, () => gateway.dispose());

console.log(`
gateway   http://127.0.0.1:${GATEWAY}
origin    http://127.0.0.1:${ORIGIN}
store     ${store.url} (token ${store.token})
redis     ${redis.url}

Try it (20 a minute on /hello):
  curl -i http://127.0.0.1:${GATEWAY}/hello
  for i in $(seq 25); do curl -s -o /dev/null -w '%{http_code} ' http://127.0.0.1:${GATEWAY}/hello; done; echo
  curl -s -H 'authorization: Bearer ${ADMIN_TOKEN}' -d '{"limits":["hello-minute"],"subject":{"ip":"203.0.113.9"}}' http://127.0.0.1:${GATEWAY}/.sluicegate/v1/check

Ctrl-C stops all of it.`);
