// `npm run store`: the local store endpoint alone.
import { parseArgs } from 'node:util';
import { FAULTS } from './faults.js';
import { startStore } from './server.js';

const USAGE = 'npm run store -- --port N [--redis URL] [--token T] [--delay MS]';

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(`store: ${message}`);
  process.exit(1);
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: 'string', default: '8079' },
        redis: { type: 'string', default: 'redis://127.0.0.1:6379' },
        token: { type: 'string', default: 'local' },
        delay: { type: 'string', default: '0' },
      },
    });
    return {
      port: wholeNumber('--port', values.port, 65535),
      delay: wholeNumber('--delay', values.delay, 60_000),
      redis: redisUrl(values.redis),
      token: values.token || fail('--token is empty; give any text, the client sends the same'),
    };
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : error}\nusage: ${USAGE}`);
  }
}

/** @param {string} option @param {string} text @param {number} most */
function wholeNumber(option, text, most) {
  const value = Number(text);
  if (/^\d+$/.test(text) && value <= most) return value;
  return fail(`${option} ${text}: a whole number from 0 to ${most} is wanted\nusage: ${USAGE}`);
}

/** @param {string} text */
function redisUrl(text) {
  if (/^rediss?:$/.test(URL.parse(text)?.protocol ?? '')) return text;
  return fail(`--redis ${text}: a URL like redis://127.0.0.1:6379 is wanted\nusage: ${USAGE}`);
}

/** @param {string} text */
function withoutPassword(text) {
  const url = new URL(text);
  if (url.password) url.password = '***';
  return url.href;
}

/** @param {Error | undefined} error an aggregate of one error an address says nothing itself */
const reason = (error) => error?.message || (error && 'code' in error && String(error.code)) || 'no answer';

const { port, delay, redis, token } = readOptions();
const where = withoutPassword(redis);

let wasDown = false;
/** @param {'up' | 'down'} state @param {Error} [error] */
function reportRedis(state, error) {
  if (state === 'down') {
    const cure = 'start one with `redis-server`, or name another with --redis';
    console.error(`store: Redis at ${where} does not answer (${reason(error)}): ${cure}; trying until it does`);
  } else if (wasDown) {
    console.error(`store: Redis at ${where} answers`);
  }
  wasDown = state === 'down';
}

const store = await startStore({ port, redis, token, onRedis: reportRedis }).catch((error) => {
  if (error.code === 'EADDRINUSE')
    fail(`port ${port} is taken: stop what listens there, or choose another with --port`);
  if (error.code === 'EACCES') fail(`port ${port} may not be opened by this user: choose one above 1023 with --port`);
  return fail(reason(error));
});
if (delay > 0) store.faults.always(FAULTS.delay(delay));
console.log(`store: ${store.url} token ${store.token}`);

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.once(signal, () => store.close().then(() => process.exit(0)));
}
