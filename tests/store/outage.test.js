// Redis goes away and comes back; the endpoint goes away.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, describe, test } from 'node:test';
import { startRedis } from '../../dev/redis.js';
import { FAULTS } from '../../dev/store/faults.js';
import { startStore } from '../../dev/store/server.js';
import { ask, call } from './setup.js';

const redis = await startRedis();
after(() => redis.stop());

/** A store whose comings and goings of Redis can be awaited. @param {{ timeout?: number }} [options] */
async function watchedStore(options) {
  /** @type {{ state: string, resolve: () => void }[]} */
  const waiting = [];
  let current = '';
  const onRedis = (/** @type {string} */ state) => {
    current = state;
    for (const { resolve } of waiting.filter((one) => one.state === state)) resolve();
  };
  const store = await startStore({ ...options, redis: redis.url, onRedis });
  /** @param {'up' | 'down'} state @returns {Promise<void>} */
  const until = (state) =>
    state === current ? Promise.resolve() : new Promise((resolve) => waiting.push({ state, resolve }));
  return { store, until };
}

describe('Redis killed and restarted', () => {
  test('answers 503 in JSON meanwhile, and goes on by itself', async () => {
    const { store, until } = await watchedStore();
    try {
      assert.deepEqual(await ask(store, ['INCR', 'n']), { result: 1 });
      await redis.kill();
      await until('down');
      for (const path of ['/', '/pipeline', '/multi-exec']) {
        const { status, text } = await call(store, path === '/' ? ['INCR', 'n'] : [['INCR', 'n']], { path });
        assert.equal(status, 503);
        assert.match(JSON.parse(text).error, /does not answer/);
      }
      await redis.restart();
      await until('up');
      assert.deepEqual(await ask(store, ['INCR', 'n']), { result: 1 }, 'nothing was queued while it was away');
    } finally {
      await store.close();
    }
  });

  test('commands under way when it dies are answered', async () => {
    const { store, until } = await watchedStore();
    try {
      await redis.kill('SIGSTOP');
      const answers = Array.from({ length: 20 }, () => call(store, ['INCR', 'n']));
      while (store.stats.requests < 20) await new Promise(setImmediate);
      await redis.kill('SIGKILL');
      for (const { status } of await Promise.all(answers)) assert.equal(status, 503);
      await redis.restart();
      await until('up');
      assert.deepEqual(await ask(store, ['PING']), { result: 'PONG' });
    } finally {
      await store.close();
    }
  });

  test('one that hangs is not waited for longer than the timeout', async () => {
    const { store } = await watchedStore({ timeout: 50 });
    try {
      await redis.kill('SIGSTOP');
      const { status, text } = await call(store, ['PING']);
      assert.equal(status, 503);
      assert.match(JSON.parse(text).error, /did not answer in 50 ms/);
    } finally {
      await redis.kill('SIGCONT');
      await store.close();
    }
  });

  test('a store started before its Redis', async () => {
    await redis.kill();
    const { store, until } = await watchedStore();
    try {
      assert.equal((await call(store, ['PING'])).status, 503);
      await redis.restart();
      await until('up');
      assert.deepEqual(await ask(store, ['PING']), { result: 'PONG' });
    } finally {
      await store.close();
    }
  });
});

test('a Redis on a port that is taken fails, though another answers there', async () => {
  await assert.rejects(startRedis({ port: redis.port }), /ended while starting/);
});

test('a server that SLUICEGATE_REDIS names and that is not there is not replaced by another', async () => {
  const script = "await (await import('./dev/redis.js')).startRedis();";
  const env = { ...process.env, SLUICEGATE_REDIS: '/nowhere/a-server' };
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let text = '';
  child.stderr.setEncoding('utf8').on('data', (data) => {
    text += data;
  });
  assert.deepEqual(await once(child, 'close'), [1, null], text);
  assert.match(text, /Error: SLUICEGATE_REDIS=\/nowhere\/a-server: spawn \/nowhere\/a-server ENOENT/);
});

test('close ends stalled and delayed requests', async () => {
  const store = await startStore({ redis: redis.url });
  store.faults.push(FAULTS.stall);
  store.faults.push(FAULTS.delay(60_000));
  const requests = [call(store, ['PING']), call(store, ['PING'])];
  while (store.stats.requests < 2) await new Promise(setImmediate);
  await Promise.all([store.close(), ...requests.map((request) => assert.rejects(request))]);
});

test('a script that closes its store ends by itself', async () => {
  const script = `
    import { startStore } from './dev/store/server.js';
    import { FAULTS } from './dev/store/faults.js';
    const store = await startStore({ redis: '${redis.url}' });
    store.faults.always(FAULTS.delay(600_000));
    fetch(store.url + '/ping?_token=local').catch(() => {});
    while (store.stats.requests === 0) await new Promise(setImmediate);
    await store.close();`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: 'inherit' });
  assert.deepEqual(await once(child, 'exit'), [0, null]);
});

describe('npm run store', () => {
  /** @param {string[]} args */
  const run = (...args) =>
    spawn(process.execPath, ['dev/store/main.js', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });

  /** @param {import('node:stream').Readable} input @returns {() => Promise<string>} */
  function lines(input) {
    const iterator = createInterface({ input })[Symbol.asyncIterator]();
    return async () => (await iterator.next()).value ?? '';
  }

  test('prints one line with URL and token, delays, and ends on Ctrl-C', async () => {
    const child = run('--port', '0', '--redis', redis.url, '--token', 't', '--delay', '30');
    const line = await lines(child.stdout)();
    const [, url, token] = /^store: (http:\S+) token (\S+)$/.exec(line) ?? assert.fail(line);
    assert.equal(token, 't');
    const began = performance.now();
    const response = await fetch(`${url}/ping?_token=t`);
    assert.equal(await response.text(), '{"result":"PONG"}');
    assert.ok(performance.now() - began >= 29);
    child.kill('SIGINT');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });

  test('says that Redis is away, keeps running, and says when it is back', async () => {
    await redis.kill();
    const child = run('--port', '0', '--redis', redis.url);
    try {
      const nextError = lines(child.stderr);
      assert.match(
        await nextError(),
        /Redis at redis:\S+ does not answer \(.*ECONNREFUSED.*\): start one with `redis-server`/,
      );
      await redis.restart();
      assert.match(await nextError(), /Redis at redis:\S+ answers/);
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('bad arguments say what would be right', async () => {
    const holder = await startStore({ redis: redis.url });
    for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
      [['--port', 'http'], /--port http: a whole number from 0 to 65535 is wanted\nusage: npm run store/],
      [['--port', '70000'], /--port 70000: a whole number/],
      [['--delay', '-1'], /--delay/],
      [['--redis', 'localhost:6379'], /--redis localhost:6379: a URL like redis:/],
      [['--nonsense'], /--nonsense.*\nusage:/s],
      [['--token', ''], /--token is empty/],
      [['--port', String(holder.port), '--redis', redis.url], /port \d+ is taken: .* choose another with --port/],
    ])) {
      const child = run(...args);
      let text = '';
      child.stderr.on('data', (data) => {
        text += data;
      });
      assert.deepEqual(await once(child, 'close'), [1, null], text);
      assert.match(text, message);
    }
    await holder.close();
  });
});
