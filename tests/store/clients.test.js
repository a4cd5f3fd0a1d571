// The official packages, unmodified.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis';
import { sha1 } from '../../dev/store/scripts.js';
import { useStore } from './setup.js';

const context = useStore();

/** @param {Partial<import('@upstash/redis').RedisConfigNodejs>} [options] */
const connect = (options) =>
  new Redis({ url: context.store.url, token: context.store.token, enableTelemetry: false, retry: false, ...options });

describe('@upstash/redis', () => {
  /** @type {Partial<import('@upstash/redis').RedisConfigNodejs>[]} */
  const configurations = [
    {},
    { enableAutoPipelining: false },
    { enableAutoPipelining: false, responseEncoding: false },
  ];
  for (const configuration of configurations) {
    test(`values come back as they were set ${JSON.stringify(configuration)}`, async () => {
      const redis = connect(configuration);
      assert.equal(await redis.set('text', 'snow ☃'), 'OK');
      assert.equal(await redis.get('text'), 'snow ☃');
      await redis.set('object', { a: [1, 'two', null], b: true });
      assert.deepEqual(await redis.get('object'), { a: [1, 'two', null], b: true });
      await redis.set('number', 42);
      assert.equal(await redis.get('number'), 42);
      await redis.set('ok', 'OK');
      assert.equal(await redis.get('ok'), 'OK');
      assert.equal(await redis.get('none'), null);
      await redis.hset('hash', { a: 1, b: { c: 2 } });
      assert.deepEqual(await redis.hgetall('hash'), { a: 1, b: { c: 2 } });
      assert.deepEqual(await redis.mget('text', 'none', 'number'), ['snow ☃', null, 42]);
      assert.equal(await redis.set('ttl', 1, { ex: 100, nx: true }), 'OK');
      assert.equal(await redis.set('ttl', 1, { ex: 100, nx: true }), null);
    });
  }

  test('pipeline and multi', async () => {
    const redis = connect();
    const [set, increased, got] = await redis.pipeline().set('k', 1).incr('k').get('k').exec();
    assert.deepEqual([set, increased, got], ['OK', 2, 2]);
    assert.deepEqual(await redis.multi().incr('k').get('k').exec(), [3, 3]);
    const failing = redis.pipeline().set('k', 'text').incr('k');
    const [, failed] = await failing.exec({ keepErrors: true });
    assert.match(String(failed.error), /not an integer/);
  });

  test('eval, evalsha, scriptLoad and scriptExists', async () => {
    const redis = connect();
    const script = '#!lua flags=allow-key-locking\nreturn {KEYS[1], ARGV[1], {1}}';
    assert.deepEqual(await redis.eval(script, ['key'], ['value']), ['key', 'value', [1]]);
    assert.deepEqual(await redis.evalsha(sha1(script), ['key'], ['value']), ['key', 'value', [1]]);
    await redis.scriptFlush();
    await assert.rejects(redis.evalsha(sha1(script), [], []), /NOSCRIPT/);
    assert.equal(await redis.scriptLoad(script), sha1(script));
    assert.deepEqual(await redis.scriptExists(sha1(script)), [1]);
  });

  test('errors are its own, with the text of Redis', async () => {
    const redis = connect({ enableAutoPipelining: false });
    await redis.set('k', 'v');
    await assert.rejects(redis.lpush('k', 'v'), { name: 'UpstashError', message: /^WRONGTYPE / });
    await assert.rejects(connect({ token: 'other' }).get('k'), {
      name: 'UpstashError',
      message: /^WRONGPASS invalid or missing auth token/,
    });
  });
});

describe('@upstash/ratelimit', () => {
  // Windows long enough that none ends while a test runs.
  const limiters = {
    fixedWindow: Ratelimit.fixedWindow(10, '400 d'),
    slidingWindow: Ratelimit.slidingWindow(10, '400 d'),
    tokenBucket: Ratelimit.tokenBucket(1, '400 d', 10),
  };
  for (const [name, limiter] of Object.entries(limiters)) {
    test(`${name} passes its limit and not one more`, async () => {
      const limit = new Ratelimit({ redis: connect(), limiter, prefix: name, ephemeralCache: false });
      const answers = await Promise.all(Array.from({ length: 25 }, () => limit.limit('subject')));
      assert.equal(answers.filter(({ success }) => success).length, 10);
      const { success, remaining } = await limit.limit('other');
      assert.deepEqual([success, remaining], [true, 9]);
      assert.equal((await limit.getRemaining('other')).remaining, 9);
      assert.ok(context.store.stats.commands.EVALSHA >= 26);
    });
  }
});
