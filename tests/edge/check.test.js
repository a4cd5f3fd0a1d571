// The decision API: decides for others, in the shape of SPEC section 8.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { left, problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();
const CHECK = '/.sluicegate/v1/check';
const IP = '192.0.2.1';

const text = policy(
  [
    limit('by-ip', { limit: 3 }),
    limit('by-tenant', { limit: 9, key: ['header:x-tenant', 'ip'], cost: { header: 'x-cost', default: 2, max: 9 } }),
  ],
  [route('/a', ['by-ip']), route('/of/{id}', ['by-ip', 'by-tenant'], { methods: ['POST'] })],
);

describe('who may ask', () => {
  test('without ADMIN_TOKEN there is no such thing: 404', async () => {
    for (const ADMIN_TOKEN of [undefined, '']) {
      const edge = await world.gateway(text, { ADMIN_TOKEN });
      problem(await edge.check({ limits: ['by-ip'], subject: { ip: IP } }), 404);
      problem(
        await edge.check({ limits: ['by-ip'], subject: { ip: IP } }, { headers: { authorization: 'Bearer ' } }),
        404,
      );
    }
  });

  test('a token that is wrong or missing: 401, which says how', async () => {
    const edge = await world.gateway(text);
    for (const authorization of [
      '',
      'Bearer',
      'Bearer wrong',
      'Basic x',
      'Bearer admin-token-for-test',
      'admin-token-for-tests',
    ]) {
      const reply = await edge.check({ limits: ['by-ip'], subject: { ip: IP } }, { headers: { authorization } });
      problem(reply, 401);
      assert.match(String(reply.headers['www-authenticate']), /^Bearer/);
    }
    problem(await edge.send(CHECK, { method: 'POST', body: '{}' }), 401);
    assert.equal(world.store.stats.requests, 0);
  });

  test('never limited, never forwarded, however the path is spelled', async () => {
    const all = await world.gateway(policy([limit('a', { limit: 1 })], [route('/{*rest}', ['a'])]));
    const paths = [
      CHECK,
      '/.sluicegate',
      '/.sluicegate/',
      '/.sluicegate/v1/other',
      '/.%73luicegate/v1/check',
      '//.sluicegate/x',
    ];
    for (const path of [...paths, ...paths]) {
      const reply = await all.send(path, { method: 'POST', body: '{}' });
      // The status page is for anybody, but takes no POST.
      assert.equal(reply.status, /^\/\.sluicegate\/?$/.test(path) ? 405 : 401, path);
      assert.equal(reply.headers.ratelimit, undefined);
    }
    assert.equal(world.origin.seen.length, 0);
  });
});

describe('a subject by key part', () => {
  test('answers in exactly that shape, passed and refused', async () => {
    const edge = await world.gateway(text);
    const question = { limits: ['by-ip'], subject: { ip: IP }, cost: 2 };
    const passed = await edge.check(question);
    assert.deepEqual([passed.status, passed.headers['content-type']], [200, 'application/json']);
    assert.equal(passed.headers['cache-control'], 'no-store');
    const first = passed.json();
    const reset = first.limits[0].reset_ms;
    assert.ok(Number.isInteger(reset) && reset > 0);
    assert.deepEqual(first, {
      allowed: true,
      tier: 'store',
      retry_after_ms: null,
      limits: [{ name: 'by-ip', allowed: true, limit: 3, remaining: 1, reset_ms: reset }],
    });
    const refused = (await edge.check(question)).json();
    assert.deepEqual([refused.allowed, refused.tier, refused.reason], [false, 'store', 'quota-exceeded']);
    assert.ok(Number.isInteger(refused.retry_after_ms) && refused.retry_after_ms > 0);
    const [{ name, allowed, remaining }] = refused.limits;
    assert.deepEqual([name, allowed, remaining], ['by-ip', false, 1]);
    assert.equal((await edge.check(question)).json().tier, 'cache');
  });

  test('counts the same subject as a proxied request does', async () => {
    const edge = await world.gateway(text);
    await edge.send('/of/1', { method: 'POST', headers: { 'x-tenant': 't' } });
    const subject = { ip: IP, 'header:x-tenant': 't' };
    const { limits } = (await edge.check({ limits: ['by-ip', 'by-tenant'], subject, cost: 1 })).json();
    assert.deepEqual(
      limits.map((/** @type {any} */ one) => [one.name, one.remaining]),
      [
        ['by-ip', 1],
        ['by-tenant', 6],
      ],
    );
    assert.equal(left(await edge.send('/a'), 'by-ip'), 0);
  });

  test('all or nothing, in one EVAL', async () => {
    const edge = await world.gateway(text);
    const subject = { ip: IP, 'header:x-tenant': 't' };
    await edge.check({ limits: ['by-ip'], subject, cost: 3 });
    world.store.stats.reset();
    const answer = (await edge.check({ limits: ['by-tenant', 'by-ip'], subject, cost: 1 })).json();
    assert.equal(answer.allowed, false);
    assert.equal(world.store.stats.requests, 1);
    assert.equal((await edge.check({ limits: ['by-tenant'], subject, cost: 0 })).json().limits[0].remaining, 9);
  });

  test('cost: the limit’s own where none is said, 0 is a look, above capacity never passes', async () => {
    const edge = await world.gateway(text);
    const ask = async (/** @type {number | undefined} */ cost) =>
      (await edge.check({ limits: ['by-tenant'], subject: { ip: IP, 'header:x-tenant': 't' }, cost })).json();
    assert.equal((await ask(0)).limits[0].remaining, 9);
    assert.deepEqual(await world.keys(), []);
    assert.equal((await ask(undefined)).limits[0].remaining, 7);
    const never = await ask(10);
    assert.deepEqual([never.allowed, never.reason, never.retry_after_ms], [false, 'cost-exceeds-capacity', null]);
    assert.equal((await ask(7)).limits[0].remaining, 0);
  });

  test('parts that only the platform knows: country and network', async () => {
    const edge = await world.gateway(policy([limit('a', { key: ['country', 'asn'] })]));
    const ask = async (/** @type {string} */ country, /** @type {string} */ asn) =>
      (await edge.check({ limits: ['a'], subject: { country, asn } })).json().limits[0].remaining;
    assert.deepEqual([await ask('DE', '64500'), await ask('DE', '64500')], [2, 1]);
    assert.deepEqual([await ask('FR', '64500'), await ask('DE', '64501')], [2, 2]);
    problem(await edge.check({ limits: ['a'], subject: { country: 'DE' } }), 400);
    assert.match(problem(await edge.send('/a'), 400).detail, /country/, 'this platform here knows none');
  });

  test('600 at once on 3: 3 are allowed', async () => {
    const edge = await world.gateway(text);
    const replies = await many(600, () => edge.check({ limits: ['by-ip'], subject: { ip: IP } }), 64);
    assert.deepEqual(statuses(replies), { 200: 600 });
    assert.equal(replies.filter((reply) => reply.json().allowed).length, 3);
  });

  test('while the store is down the policy answers', async () => {
    const edge = await world.gateway(text, { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' });
    const answer = (await edge.check({ limits: ['by-ip'], subject: { ip: IP } })).json();
    assert.deepEqual([answer.allowed, answer.tier, answer.reason], [false, 'closed', 'store-unavailable']);
    assert.ok(answer.retry_after_ms >= 1000);
  });
});

describe('a request by method, url and headers', () => {
  test('is decided as if it had been proxied', async () => {
    const edge = await world.gateway(text);
    const headers = { 'CF-Connecting-IP': IP, 'X-Tenant': 't', 'x-cost': '4' };
    const answer = (await edge.check({ method: 'POST', url: 'https://api.test/of/%31?x=1', headers })).json();
    assert.deepEqual(
      answer.limits.map((/** @type {any} */ one) => [one.name, one.remaining]),
      [
        ['by-ip', 2],
        ['by-tenant', 5],
      ],
    );
    assert.equal(world.origin.seen.length, 0);
    const reply = await edge.send('/of/1', { method: 'POST', headers: { 'x-tenant': 't' } });
    assert.deepEqual([left(reply, 'by-ip'), left(reply, 'by-tenant')], [1, 3]);
  });

  test('GET where no method is said; what no route takes is allowed', async () => {
    const edge = await world.gateway(text);
    const headers = { 'cf-connecting-ip': IP };
    const first = (await edge.check({ url: 'https://api.test/a', headers })).json();
    assert.deepEqual([first.allowed, first.limits.length], [true, 1]);
    const other = (await edge.check({ url: 'https://api.test/elsewhere', headers })).json();
    assert.deepEqual([other.allowed, other.retry_after_ms, other.limits], [true, null, []]);
  });

  test('by its path alone, whatever stands in its query', async () => {
    const edge = await world.gateway(text);
    const headers = { 'cf-connecting-ip': IP };
    for (const url of ['/a', '/a?next=https://api.test/elsewhere', '//a', '/elsewhere/..//a#/b']) {
      const { limits } = (await edge.check({ url, headers })).json();
      assert.deepEqual(
        limits.map((/** @type {any} */ one) => one.name),
        ['by-ip'],
        url,
      );
    }
  });

  test('the asker’s own address is not the subject’s', async () => {
    const edge = await world.gateway(text);
    problem(await edge.check({ url: 'https://api.test/a', headers: {} }), 400);
  });
});

describe('questions that cannot be answered', () => {
  test('unknown limit: 404', async () => {
    const edge = await world.gateway(text);
    assert.match(problem(await edge.check({ limits: ['by-ip', 'nope'], subject: { ip: IP } }), 404).detail, /nope/);
  });

  test('bad ones: 400 that says what is wrong', async () => {
    const edge = await world.gateway(text);
    const subject = { ip: IP };
    /** @type {unknown[]} */
    const questions = [
      ...['', '{', 'null', '[]', '"x"', '{"limits":["by-ip"],"subject":{"ip":"192.0.2.1"}}x'],
      {},
      { limits: ['by-ip'] },
      { limits: ['by-ip'], subject: {} },
      { limits: ['by-ip'], subject: { ip: 'nobody' } },
      { limits: ['by-ip'], subject: { ip: '' } },
      { limits: ['by-ip'], subject: { color: 'red', ip: IP } },
      { limits: ['by-ip', 'by-ip'], subject },
      { limits: 'by-ip', subject },
      { limits: ['by-ip'], subject, url: 'https://api.test/a' },
      { limits: ['by-ip'], subject, costs: 1 },
      ...[-1, 1.5, 1e300, '1', [], true].map((cost) => ({ limits: ['by-ip'], subject, cost })),
      '{"limits":["by-ip"],"subject":{"ip":"192.0.2.1"},"cost":NaN}',
      // A list is no object, though its items come in the order of the fields.
      [['by-ip'], subject],
      // Of two spellings of one part or header either could have been meant.
      { limits: ['by-tenant'], subject: { ip: IP, 'header:x-tenant': 'a', 'header:X-Tenant': 'b' } },
      { url: '/a', headers: { 'cf-connecting-ip': IP, 'CF-Connecting-IP': '192.0.2.2' } },
      // Half of the one way to ask and half of the other: something would be left out of account.
      { limits: ['by-ip'], subject, method: 'GET' },
      { limits: ['by-ip'], subject, headers: { 'x-cost': '9' } },
      { url: '/a', headers: { 'cf-connecting-ip': IP }, subject },
      // No URL, so no route: to let it through would be to count nothing.
      ...['', 'a', 'api.test/a', 'ftp://api.test/a', 'https://', 'https:///a', 'https://api.test?/a', '?/a'].map(
        (url) => ({ url, headers: { 'cf-connecting-ip': IP } }),
      ),
    ];
    for (const question of questions) {
      const reply = await edge.check(question);
      assert.equal(reply.status, 400, `${JSON.stringify(question)}: ${reply.text}`);
      assert.ok(problem(reply, 400).detail.length > 5);
    }
    assert.equal(world.store.stats.requests, 0);
  });

  test('a body too large: 413, by its length or as it comes', async () => {
    const edge = await world.gateway(text);
    const body = JSON.stringify({ limits: ['by-ip'], subject: { ip: IP, 'header:x-pad': 'x'.repeat(70_000) } });
    problem(await edge.check(body), 413);
    const headers = { 'transfer-encoding': 'chunked' };
    const reply = await edge.check(body, { headers });
    assert.equal(reply.status, 413);
  });

  test('a body that is not UTF-8: 4xx', async () => {
    const edge = await world.gateway(text);
    const headers = { authorization: 'Bearer admin-token-for-tests' };
    const reply = await edge.send(CHECK, { method: 'POST', headers, body: Buffer.from([0x22, 0xff, 0x22]) });
    assert.ok(reply.status >= 400 && reply.status < 500, String(reply.status));
  });

  test('another method: 405 with Allow', async () => {
    const edge = await world.gateway(text);
    const headers = { authorization: 'Bearer admin-token-for-tests' };
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const reply = await edge.send(CHECK, { method, headers });
      problem(reply, 405);
      assert.equal(reply.headers.allow, 'POST');
    }
  });
});
