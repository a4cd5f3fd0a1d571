// The policies of examples/, driven: what their heads promise is what a client gets.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { call } from './admin/api.js';
import { many, statuses, tiers } from './support/client.js';
import { check, example } from './support/examples.js';
import { left, problem, QUOTA_EXCEEDED, rateLimit, rateLimitPolicy } from './support/fields.js';
import { CALM_BREAKER } from './support/policy.js';
import { held, holders, open, untilHeld } from './support/slots.js';
import { ADMIN_TOKEN, until, useWorld } from './support/world.js';

const world = useWorld();

/**
 * The example as it is, but for what a busy machine needs: time for the store, no breaker, and the tier to look at.
 *
 * @param {any} policy
 */
const started = (policy, store = {}) =>
  world.gateway({
    ...policy,
    gateway: { ...policy.gateway, tier_header: true },
    store: { ...policy.store, timeout: '10s', breaker: CALM_BREAKER, ...store },
  });

/** What an outage answers at once. */
const outage = () => world.store.faults.always(FAULTS.loading);

describe('llm-api.toml', () => {
  /** @type {any} */
  let policy;
  before(() => {
    policy = example('llm-api');
  });
  /** @param {string} tenant @param {Record<string, string>} headers */
  const chat = (tenant, headers) => ({ method: 'POST', headers: { 'x-tenant': tenant, ...headers }, body: '{}' });
  /** The tenant as its slots are kept in the store. @param {string} tenant @returns {string} */
  const subject = (tenant) => {
    const request = ['POST', '/v1/x', '-H', 'cf-connecting-ip: 192.0.2.1', '-H', `x-tenant: ${tenant}`];
    const { limits } = check('examples/llm-api.toml', '--explain', ...request);
    const slots = limits.find((/** @type {any} */ { name }) => name === 'tenant-streams');
    return slots.store_key.replace('sg:1:tenant-streams:c:', '');
  };

  test('tokens are what is counted, by tenant, at the size of its plan', async () => {
    const edge = await started(policy);
    const path = '/v1/chat/completions';
    const small = await edge.send(path, chat('acme', { 'x-plan': 'trial', 'x-tokens': '150000' }));
    assert.equal(small.status, 200);
    assert.deepEqual(rateLimitPolicy(small)['tenant-tokens'], { q: 100_000, w: 60 });
    assert.equal(left(small, 'tenant-day'), 850_000);
    await untilHeld(world, 'tenant-streams', 0, subject('acme'));
    const refused = await edge.send(path, chat('acme', { 'x-plan': 'trial', 'x-tokens': '150000' }));
    const document = problem(refused, 429);
    assert.deepEqual([document.type, document['violated-policies']], [QUOTA_EXCEEDED, ['tenant-tokens']]);
    // The day's budget and the address were not charged for what was refused.
    const large = await edge.send(path, chat('acme', { 'x-plan': 'scale', 'x-tokens': '150000' }));
    assert.deepEqual([large.status, left(large, 'tenant-day')], [200, 499_700_000]);
    const other = await edge.send(path, chat('other', { 'x-plan': 'trial', 'x-tokens': '150000' }));
    assert.deepEqual([other.status, left(other, 'tenant-day')], [200, 850_000]);
    const { path: sent, headers, body } = world.origin.seen[0];
    assert.deepEqual([sent, headers['x-tokens'], body], [path, '150000', '{}']);
  });

  test('a tenant has its slots while answers stream: one on trial, more by its plan', async () => {
    const edge = await started(policy);
    const acme = subject('acme');
    const [path, other] = ['/v1/chat/completions', '/v1/embeddings'];
    const streams = held(world, path);
    const trial = { method: 'POST', headers: { 'x-tenant': 'acme', 'x-plan': 'trial', 'x-tokens': '1000' } };
    const first = await open(edge, path, trial);
    assert.equal(first.response.statusCode, 200);
    const refused = await edge.send(other, chat('acme', { 'x-plan': 'trial', 'x-tokens': '1000' }));
    assert.deepEqual(problem(refused, 429)['violated-policies'], ['tenant-streams']);
    assert.deepEqual(rateLimitPolicy(refused)['tenant-streams'], { q: 1, qu: 'concurrent-requests' });
    assert.equal((await edge.send(other, chat('acme', { 'x-tokens': '1000' }))).status, 429, 'no plan has one too');
    assert.equal((await edge.send(other, chat('bolt', { 'x-plan': 'trial' }))).status, 200, 'another tenant');
    // On a larger plan the stream that runs is one of four.
    const build = { ...trial, headers: { ...trial.headers, 'x-plan': 'build' } };
    const more = [await open(edge, path, build), await open(edge, path, build), await open(edge, path, build)];
    assert.deepEqual(
      more.map(({ response }) => response.statusCode),
      [200, 200, 200],
    );
    assert.equal((await holders(world, 'tenant-streams', acme)).length, 4);
    assert.equal((await edge.send(other, chat('acme', { 'x-plan': 'build', 'x-tokens': '1000' }))).status, 429);
    for (const stream of streams) stream.end();
    await Promise.all([first, ...more].map((stream) => stream.whole()));
    await untilHeld(world, 'tenant-streams', 0, acme);
    const next = await edge.send(other, chat('acme', { 'x-plan': 'trial', 'x-tokens': '1000' }));
    // Five passed and three found no slot, which cost neither tokens nor budget.
    assert.deepEqual([next.status, left(next, 'tenant-day')], [200, 1_000_000 - 5 * 1000]);
  });

  test('the default cost, a cost that is too great, a tenant that is not said', async () => {
    const edge = await started(policy);
    const usual = await edge.send('/v1/embeddings', chat('acme', {}));
    assert.equal(left(usual, 'tenant-day'), 996_000);
    assert.match(
      problem(await edge.send('/v1/embeddings', chat('acme', { 'x-tokens': '200001' })), 400).detail,
      /200000/,
    );
    assert.match(problem(await edge.send('/v1/embeddings', chat('', {})), 400).detail, /header:x-tenant/);
    assert.equal((await edge.send('/v2')).status, 404);
    assert.deepEqual(Object.keys(rateLimit(await edge.send('/v1/models'))), ['client-requests']);
  });

  test('in an outage nobody spends, and the models can still be listed', async () => {
    const edge = await started(policy);
    outage();
    const closed = problem(await edge.send('/v1/chat/completions', chat('acme', {})), 503);
    assert.deepEqual(closed['violated-policies'], ['tenant-day']);
    const listed = await edge.send('/v1/models');
    assert.deepEqual([listed.status, tiers([listed])], [200, { degraded: 1 }]);
    assert.deepEqual(rateLimitPolicy(listed), { 'client-requests': { q: 1, w: 1 } }, 'a tenth');
  });
});

describe('llm-tokens.toml', () => {
  /** @type {any} */
  let policy;
  before(() => {
    policy = example('llm-tokens');
  });
  const path = '/v1/chat/completions';
  const chat = { method: 'POST', headers: { 'x-tenant': 'acme', 'x-max-tokens': '90000' }, body: '{}' };
  const day = 'limits/tokens-a-day/acme';
  /** @param {import('./support/world.js').Edge} edge @param {number} tokens */
  const untilUsed = (edge, tokens) =>
    until(async () => (await call(edge, 'GET', day)).json().used === tokens, `${tokens} tokens to be used`);

  test('what an answer did not use is there for the next', async () => {
    const edge = await started(policy);
    world.origin.handlers.set(path, (response) => response.writeHead(200, { 'x-usage-tokens': '1200' }).end('{}'));
    for (const used of [1200, 2400, 3600]) {
      const reply = await edge.send(path, chat);
      assert.deepEqual([reply.status, reply.headers['x-usage-tokens']], [200, '1200']);
      await untilUsed(edge, used);
    }
  });

  test('a stream is settled by whoever has its charge; a model that ran away is paid for first', async () => {
    const edge = await started(policy);
    await edge.send(path, chat);
    const charge = world.origin.seen[0].headers['sluicegate-charge'];
    assert.deepEqual(statuses([await edge.send(path, chat)]), { 429: 1 }, 'the reservation stands until then');
    const settled = (await call(edge, 'POST', 'check', { settle: { charge, used: 150_000 } })).json();
    assert.deepEqual(
      settled.limits.map((/** @type {any} */ { units }) => units),
      [60_000, 60_000],
    );
    const owed = await edge.send(path, { ...chat, headers: { ...chat.headers, 'x-max-tokens': '1' } });
    assert.ok(Number(problem(owed, 429).retry_after) > 25, 'about 50,000 tokens are owed, at 100,000 a minute');
  });
});

describe('login.toml', () => {
  /** @type {any} */
  let policy;
  before(() => {
    policy = example('login');
  });
  /** @param {string} account @param {string} [ip] */
  const login = (account, ip) => ({ method: 'POST', headers: { 'x-account': account }, body: 'password=x', ip });

  test('many addresses that try one account get five attempts in all', async () => {
    const edge = await started(policy);
    const attempts = await many(12, (index) => edge.send('/login', login('ada', `192.0.2.${index}`)));
    assert.deepEqual(statuses(attempts), { 200: 5, 429: 7 });
    // The same count for password resets; none for another account.
    assert.equal((await edge.send('/password/reset', login('ada', '192.0.2.99'))).status, 429);
    const other = await edge.send('/login', login('bob', '192.0.2.1'));
    assert.equal(other.status, 200);
    assert.equal(other.headers.ratelimit, undefined, 'nobody is told what is left');
    assert.equal(world.origin.seen.length, 6);
    assert.ok((await world.keys()).every((key) => !key.includes('ada') && !key.includes('bob')));
  });

  test('one address that tries many accounts gets thirty, whatever the end of its IPv6 address', async () => {
    const edge = await started(policy);
    const attempts = await many(40, (index) => edge.send('/login', login(`a${index}`, `2001:db8:1:2::${index + 1}`)));
    assert.deepEqual(statuses(attempts), { 200: 30, 429: 10 });
    assert.equal((await edge.send('/login', login('b', '2001:db8:1:3::1'))).status, 200);
  });

  test('no account, no attempt; no store, no attempt', async () => {
    const edge = await started(policy);
    assert.match(problem(await edge.send('/login', { method: 'POST' }), 400).detail, /header:x-account/);
    outage();
    const closed = await edge.send('/login', login('ada'));
    assert.deepEqual(problem(closed, 503)['violated-policies'].sort(), ['login-account', 'login-address']);
    assert.ok(Number(closed.headers['retry-after']) >= 1);
    assert.equal(world.origin.seen.length, 0);
  });
});

describe('webhook.toml', () => {
  /** @type {any} */
  let policy;
  before(() => {
    policy = example('webhook');
  });
  /** @param {string} id */
  const event = (id) => ({ method: 'POST', headers: { 'webhook-id': id }, body: '{"event":1}' });

  test('a redelivery passes again and is charged once', async () => {
    const edge = await started(policy);
    const first = await edge.send('/hooks/shop', event('msg_1'));
    const again = await edge.send('/hooks/shop', event('msg_1'));
    assert.deepEqual([first.status, again.status], [200, 200]);
    assert.deepEqual([left(first, 'address'), left(again, 'address')], [599, 599]);
    assert.equal(left(await edge.send('/hooks/shop', event('msg_2')), 'address'), 598);
    assert.equal(left(await edge.send('/hooks/bank', event('msg_1')), 'address'), 599, 'another source');
    assert.deepEqual(
      world.origin.seen.map(({ path, body }) => [path, body]),
      ['shop', 'shop', 'shop', 'bank'].map((source) => [`/hooks/${source}`, '{"event":1}']),
    );
  });

  test('a broken sender is stopped by its address, and others of its source go on', async () => {
    const edge = await started(policy);
    // Five a minute for one sender, by an override under the key that the checker tells, so that no flood is needed.
    const explained = check(
      ...['examples/webhook.toml', '--explain', 'POST', '/hooks/shop', '-H', 'cf-connecting-ip: 192.0.2.1'],
    );
    await world.client.set(explained.limits[1].override_key, '5 0');
    const flood = await many(9, (index) => edge.send('/hooks/shop', event(`f${index}`)));
    assert.deepEqual(statuses(flood), { 200: 5, 429: 4 });
    const refused = flood.find(({ status }) => status === 429);
    assert.deepEqual(refused && problem(refused, 429)['violated-policies'], ['address']);
    assert.equal((await edge.send('/hooks/shop', { ...event('g'), ip: '192.0.2.2' })).status, 200);
    assert.equal((await edge.send('/hooks/bank', event('h'))).status, 200, 'another source of its own');
    assert.equal((await edge.send('/hooks/shop')).headers.ratelimit, undefined, 'a challenge is free');
  });

  test('in an outage intake slows down and does not stop', async () => {
    const edge = await started(policy);
    outage();
    const replies = await many(50, (index) => edge.send('/hooks/shop', event(`o${index}`)), 16);
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 50 }, { degraded: 50 }]);
    assert.deepEqual(rateLimitPolicy(replies[0]).source, { q: 10, w: 1 }, 'a tenth');
    assert.deepEqual(Object.keys(rateLimit(replies[0])), ['source'], 'address is open and counts nothing');
  });
});

describe('plans.toml', () => {
  /** @type {any} */
  let policy;
  before(() => {
    policy = example('plans');
  });
  /** @param {string} customer @param {string} [plan] */
  const of = (customer, plan) => ({
    headers: { 'x-customer': customer, ...(plan === undefined ? {} : { 'x-plan': plan }) },
  });

  test('each plan has its size; none, and one that is not written, have the smallest', async () => {
    const edge = await started(policy);
    const sizes = { free: 60, pro: 600, team: 3000, gold: 60, none: 60 };
    for (const [plan, size] of Object.entries(sizes)) {
      const reply = await edge.send('/api/items', of(plan, plan === 'none' ? undefined : plan));
      assert.deepEqual(rateLimitPolicy(reply).requests, { q: size, w: 60 }, plan);
    }
    assert.match(problem(await edge.send('/api/items'), 400).detail, /header:x-customer/);
  });

  test('unlimited asks nobody and is counted by what is on trial alone; blocked is refused', async () => {
    const edge = await started(policy);
    const enterprise = await many(30, () => edge.send('/api/items', of('big', 'enterprise')));
    assert.deepEqual(statuses(enterprise), { 200: 30 }, 'a limit in shadow refuses nobody');
    assert.deepEqual(Object.keys(rateLimitPolicy(enterprise[0])), ['exports']);
    world.store.stats.reset();
    const suspended = await edge.send('/api/items', of('gone', 'suspended'));
    assert.deepEqual(problem(suspended, 429)['violated-policies'].sort(), ['month', 'requests']);
    assert.equal(suspended.headers['retry-after'], undefined);
    assert.equal(world.store.stats.requests, 0);
  });

  test('reading is at the origin while the store decides, writing is not', async () => {
    const edge = await started(policy, { remember: '0s' });
    for (const method of ['GET', 'HEAD', 'POST', 'DELETE']) {
      assert.equal((await edge.send('/api/items', { method, ...of('acme', 'pro') })).status, 200, method);
    }
    const began = performance.now();
    const free = await many(40, () => edge.send('/api/items', of('bolt', 'free')), 1);
    const seconds = (performance.now() - began) / 1000;
    const { 200: passed, 429: refused } = statuses(free);
    assert.ok(passed >= 20 && passed <= 21 + seconds, `the burst of 20, then one a second: ${passed} in ${seconds} s`);
    for (const { status, text } of free) if (status === 429) assert.doesNotMatch(text, /origin/);
    const authorization = `Bearer ${ADMIN_TOKEN}`;
    const status = (await edge.send('/.sluicegate/v1/status', { headers: { authorization } })).json();
    assert.deepEqual(status.optimistic, { begun: 2 + passed + refused, discarded: refused, held_back: 0 });
  });

  test('a burst is spent, and a better plan keeps what was used', async () => {
    const edge = await started(policy, { remember: '0s' });
    const subject = { 'header:x-customer': 'acme', 'header:x-plan': 'free' };
    const whole = { limits: ['requests', 'month'], subject, cost: 20 };
    assert.equal((await edge.check(whole)).json().allowed, true);
    const again = (await edge.check(whole)).json();
    const refused = again.limits.filter((/** @type {any} */ { allowed }) => !allowed);
    assert.deepEqual([again.allowed, refused.map((/** @type {any} */ { name }) => name)], [false, ['requests']]);
    const better = await edge.send('/api/items', of('acme', 'pro'));
    assert.deepEqual([better.status, left(better, 'month')], [200, 1_000_000 - 21]);
    assert.equal(better.headers['x-ratelimit-limit'], '10', 'that of the tightest');
  });
});

describe('partner.toml', () => {
  /** @type {any} */
  let policy;
  before(() => {
    policy = example('partner');
  });
  /** @param {string} service */
  const by = (service) => ({ headers: { 'x-service': service } });

  test('calls of two services wait for their turn, spaced over both gateways', async () => {
    const edges = await Promise.all([started(policy), started(policy)]);
    /** @type {number[]} */
    const arrived = [];
    world.origin.handlers.set('/v2/orders', (response) => {
      arrived.push(Date.now());
      response.end('ok');
    });
    const began = Date.now();
    const replies = await many(10, (index) => edges[index % 2].send('/v2/orders', by(index % 4 < 2 ? 'a' : 'b')));
    assert.deepEqual(statuses(replies), { 200: 10 });
    arrived.sort((a, b) => a - b);
    // The store's clock may be read a few milliseconds coarser than this one.
    for (const [index, at] of arrived.entries()) assert.ok(at - began >= index * 100 - 10, `${index}: ${at - began}`);
  });

  test('one service leaves room for others, and what is too far ahead is refused', async () => {
    const edge = await started(policy);
    const alone = await edge.check({ limits: ['service'], subject: { 'header:x-service': 'a' }, cost: 5 });
    const more = await edge.check({ limits: ['service'], subject: { 'header:x-service': 'a' }, cost: 5 });
    const beyond = await edge.send('/v2/orders', by('a'));
    // Its second ten are a second away, of two that it may wait: five more fit, and no sixth before a fifth of a second.
    const last = await edge.check({ limits: ['service'], subject: { 'header:x-service': 'a' }, cost: 5 });
    assert.deepEqual([alone.json().delay_ms, beyond.status], [undefined, 200]);
    assert.ok(more.json().delay_ms <= 1000 && more.json().delay_ms > 0, more.text);
    assert.equal(last.json().allowed || last.json().retry_after_ms <= 1000, true, last.text);
    assert.equal((await edge.send('/v2/orders', by('b'))).status, 200);
  });

  test('without the store nothing is sent', async () => {
    outage();
    const edge = await started(policy);
    const reply = await edge.send('/v2/orders', by('a'));
    assert.equal(reply.status, 503);
    assert.equal(world.origin.seen.length, 0);
  });
});

describe('hot.toml', () => {
  test('one call for a hundred requests of a customer, and none of another’s', async () => {
    const policy = example('hot');
    // A busy machine may take longer for a hundred requests than permits are good for.
    const limits = policy.limits.map((/** @type {any} */ one) => ({ ...one, lease_ttl: '1m' }));
    const edge = await started({ ...policy, limits });
    const get = (/** @type {string} */ customer) =>
      edge.send('/v1/prices/eur', { headers: { 'x-customer': customer, 'x-plan': 'large' } });
    const replies = await many(100, () => get('acme'), 1);
    assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 100 }, { store: 1, cache: 99 }]);
    assert.equal(left(replies[99], 'customer-day'), 200_000_000 - 100);
    assert.equal((await get('other')).headers['sluicegate-tier'], 'store');
    // The second's permits are gone, the day's are not, and only the second is asked about.
    assert.equal((await get('acme')).headers['sluicegate-tier'], 'store');
    outage();
    assert.deepEqual(tiers(await many(99, () => get('acme'), 1)), { cache: 99 });
    assert.deepEqual(tiers(await many(3, () => get('acme'), 1)), { degraded: 3 });
  });
});
