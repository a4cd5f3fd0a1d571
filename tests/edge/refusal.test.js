// Exactly as many pass as the policy says, and the others are told the truth.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { left, problem, QUOTA_EXCEEDED, rateLimit, rateLimitPolicy } from './support/fields.js';
import { aboutAMinute, DAY, limit, policy } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

describe('40 requests at once against 20 a minute', () => {
  for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-log']) {
    test(`${algorithm}: 20 pass`, async () => {
      const window = aboutAMinute();
      const edge = await world.gateway(policy([limit('a', { algorithm, limit: 20, window: window.text })]));
      const replies = await many(40, () => edge.send('/a'));
      assert.deepEqual(statuses(replies), { 200: 20, 429: 20 });
      assert.equal(world.origin.seen.length, 20, 'a refused request reached the origin');
    });
  }

  test('token-bucket: 20 pass, of a burst of 20', async () => {
    const edge = await world.gateway(
      policy([limit('a', { algorithm: 'token-bucket', limit: 1, burst: 20, window: '1h' })]),
    );
    assert.deepEqual(statuses(await many(40, () => edge.send('/a'))), { 200: 20, 429: 20 });
  });

  test('waiting Retry-After would pass: it reaches the end of the window and no further', async () => {
    const window = aboutAMinute();
    const edge = await world.gateway(policy([limit('a', { limit: 20, window: window.text })]));
    const before = Date.now();
    const replies = await many(40, () => edge.send('/a'));
    const after = Date.now();
    const end = Math.ceil(before / window.ms) * window.ms;
    const [least, most] = [Math.ceil((end - after) / 1000), Math.ceil((end - before) / 1000)];
    const refused = replies.filter(({ status }) => status === 429);
    assert.equal(refused.length, 20);
    for (const reply of refused) {
      const seconds = Number(reply.headers['retry-after']);
      assert.ok(least <= seconds && seconds <= most, `${seconds} is not within ${least} to ${most}`);
      assert.equal(rateLimit(reply).a.t, seconds, 'RateLimit and Retry-After disagree');
      assert.equal(problem(reply, 429).retry_after, seconds);
    }
  });

  test('of a token bucket: the moment at which the next token is there', async () => {
    const edge = await world.gateway(
      policy([limit('a', { algorithm: 'token-bucket', limit: 1, burst: 2, window: '1h' })]),
    );
    const before = Date.now();
    await edge.send('/a');
    await edge.send('/a');
    const reply = await edge.send('/a');
    const spent = Math.ceil((Date.now() - before) / 1000);
    const seconds = Number(reply.headers['retry-after']);
    assert.ok(seconds <= 3600 && seconds >= 3600 - spent, `${seconds}`);
  });

  test('waiting out a short window passes', async () => {
    const edge = await world.gateway(
      policy([limit('a', { algorithm: 'token-bucket', limit: 1, burst: 1, window: '1s' })]),
    );
    assert.equal((await edge.send('/a')).status, 200);
    const refused = await edge.send('/a');
    assert.equal(refused.headers['retry-after'], '1');
    // The server's own number is what is tried here.
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(refused.headers['retry-after'])));
    assert.equal((await edge.send('/a')).status, 200);
  });
});

describe('a refusal', () => {
  test('is a problem document with the fields of SPEC section 7', async () => {
    const edge = await world.gateway(policy([limit('tenant-minute', { limit: 1 })]));
    await edge.send('/a');
    const reply = await edge.send('/a');
    const { retry_after, detail, ...rest } = problem(reply, 429);
    assert.deepEqual(rest, {
      type: QUOTA_EXCEEDED,
      title: 'Quota exceeded',
      status: 429,
      'violated-policies': ['tenant-minute'],
    });
    assert.equal(String(retry_after), reply.headers['retry-after']);
    assert.match(detail, new RegExp(`^1 per (1d|17h) for tenant-minute is used up; try again in ${retry_after} s\\.$`));
  });

  test('has RateLimit fields that parse, the tightest limit first', async () => {
    const limits = [limit('wide', { limit: 9 }), limit('tight', { limit: 2 })];
    const edge = await world.gateway(policy(limits));
    const passed = await edge.send('/a');
    assert.deepEqual(Object.keys(rateLimit(passed)), ['tight', 'wide']);
    assert.deepEqual([left(passed, 'tight'), left(passed, 'wide')], [1, 8]);
    assert.deepEqual(rateLimitPolicy(passed), {
      tight: { q: 2, w: DAY.ms / 1000 },
      wide: { q: 9, w: DAY.ms / 1000 },
    });
    await edge.send('/a');
    const refused = await edge.send('/a');
    assert.equal(refused.status, 429);
    assert.deepEqual(Object.keys(rateLimit(refused)), ['tight', 'wide']);
    assert.deepEqual([left(refused, 'tight'), left(refused, 'wide')], [0, 7]);
    assert.deepEqual(problem(refused, 429)['violated-policies'], ['tight']);
  });

  test('names the limit that takes longest where several refuse', async () => {
    const short = limit('short', { limit: 1, algorithm: 'sliding-log', window: '1h' });
    const long = limit('long', { limit: 1, algorithm: 'sliding-log', window: '2h' });
    const edge = await world.gateway(policy([short, long]));
    await edge.send('/a');
    const reply = await edge.send('/a');
    assert.deepEqual(problem(reply, 429)['violated-policies'].toSorted(), ['long', 'short']);
    assert.deepEqual(Object.keys(rateLimit(reply)), ['long', 'short']);
    const seconds = Number(reply.headers['retry-after']);
    assert.ok(seconds > 3600 && seconds <= 7200, `${seconds}`);
    for (const { t } of Object.values(rateLimit(reply))) assert.ok(t <= seconds, 'Retry-After is earlier than t');
  });

  test('of a window under a second says no w', async () => {
    const edge = await world.gateway(policy([limit('a', { window: '500ms' })]));
    assert.deepEqual(rateLimitPolicy(await edge.send('/a')), { a: { q: 3 } });
  });

  test('of HEAD has no body, and the fields of GET', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 1 })]));
    await edge.send('/a');
    const reply = await edge.send('/a', { method: 'HEAD' });
    assert.equal(reply.status, 429);
    assert.equal(reply.text, '');
    assert.ok(Number(reply.headers['retry-after']) > 0);
    assert.equal(left(reply, 'a'), 0);
  });

  test('does not wait for the body of the request', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 1 })]));
    await edge.send('/a');
    const { request } = await import('node:http');
    const headers = { 'cf-connecting-ip': '192.0.2.1', 'content-length': '1000000' };
    const outgoing = request(`${edge.url}/a`, { method: 'POST', headers });
    outgoing.on('error', () => {});
    const answered = new Promise((resolve) => outgoing.once('response', resolve));
    outgoing.write('a beginning and no end');
    const response = /** @type {import('node:http').IncomingMessage} */ (await answered);
    assert.equal(response.statusCode, 429);
    outgoing.destroy();
  });

  test('charges nothing and writes nothing', async () => {
    const edge = await world.gateway(
      policy([limit('a', { algorithm: 'sliding-log' })], undefined, { store: { remember: '0s' } }),
    );
    await many(3, () => edge.send('/a'));
    const [key] = await world.keys();
    const before = await world.client.dump(key);
    assert.deepEqual(statuses(await many(20, () => edge.send('/a'))), { 429: 20 });
    assert.deepEqual(await world.client.dump(key), before);
  });
});
