// docs/answers.md: its examples and its table of statuses, against the running Worker.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { problem } from './support/fields.js';
import { aboutAMinute, limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

/** @typedef {import('./support/client.js').Reply} Reply */

const world = useWorld();
const page = readFileSync(new URL('../../docs/answers.md', import.meta.url), 'utf8');
const examples = [...page.matchAll(/```http\n(.*?)```/gs)].map(([, text]) => {
  const [head, body = ''] = text.split('\n\n');
  const [line, ...fields] = head.trim().split('\n');
  const read = fields.map((field) => /** @type {[string, string]} */ (field.split(': ', 2)));
  return { status: Number(line.split(' ')[1]), fields: Object.fromEntries(read), body: body.trim() };
});

/** Leaves out what depends on the moment: seconds until and since. @param {unknown} text */
const shape = (text) =>
  String(text)
    .replaceAll(/\b(t=)\d+/g, '$1T')
    .replaceAll(/(in |"retry_after":)\d+/g, '$1T')
    .replaceAll(/\bw=\d+/g, 'w=W')
    .replaceAll(/\d+ per \d+[sm]/g, 'N per W');

/** Fields whose value is nothing but a moment, or a length that depends on one. */
const MOMENTS = ['RateLimit-Reset', 'X-RateLimit-Reset', 'Retry-After', 'Content-Length'];

/** @param {Reply} reply @param {(typeof examples)[number]} example */
function looksLike(reply, example) {
  assert.equal(reply.status, example.status);
  for (const [name, value] of Object.entries(example.fields)) {
    const said = reply.headers[name.toLowerCase()];
    if (MOMENTS.includes(name)) assert.match(String(said), /^\d+$/, name);
    else assert.equal(shape(said), shape(value), name);
  }
  if (example.body) assert.equal(shape(reply.text), shape(example.body));
}

test('the examples', async () => {
  const burst = { algorithm: 'token-bucket', limit: 50, window: '1s', burst: 100 };
  const minute = { limit: 60, window: aboutAMinute().text, key: ['header:x-tenant'] };
  const limits = [limit('client-burst', burst), limit('tenant-minute', minute)];
  const headers = ['draft-10', 'draft-03', 'x-ratelimit'];
  const edge = await world.gateway(policy(limits, undefined, { gateway: { headers } }));
  const send = () => edge.send('/a', { headers: { 'x-tenant': 't' } });
  const [passed, refused] = examples;
  looksLike(await send(), passed);
  for (let sent = 1; sent < 60; sent += 1) await send();
  const reply = await send();
  // The bucket refills while the minute is used up; how far it got is the machine's speed.
  reply.headers.ratelimit = String(reply.headers.ratelimit).replace(/("client-burst";r=)\d+/, '$199');
  looksLike(reply, refused);
});

test('the table of statuses', async () => {
  const rows = [...page.matchAll(/^\| (\d{3}) \| ([^|]+) \|/gm)].map(([, status, title]) => `${status} ${title}`);
  const limits = [
    limit('one', { limit: 1 }),
    limit('keyed', { key: ['header:x-key'] }),
    limit('costed', { cost: { header: 'x-cost', max: 2 }, idempotency: 'header:idempotency-key' }),
    limit('degraded', { limit: 1, on_store_error: 'degraded' }),
  ];
  const routes = ['one', 'keyed', 'costed', 'degraded'].map((name) => route(`/${name}`, [name]));
  const gateway = { unmatched: 'deny', origin_timeout: '100ms' };
  const text = policy(limits, routes, { gateway });
  const edge = await world.gateway(text);
  const unreachable = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' };
  const [down, away, wrong] = await Promise.all([
    world.gateway(text, unreachable),
    world.gateway(text, { ORIGIN: 'http://127.0.0.1:1' }),
    world.gateway({ ...text, version: 2 }),
  ]);
  world.origin.handlers.set('/keyed', () => {});
  const long = 'x'.repeat(20_000);
  const key = (/** @type {string} */ cost) => ({ 'idempotency-key': 'k', 'x-cost': cost });
  const asked = /** @type {[import('./support/world.js').Edge, string, Record<string, string>?][]} */ ([
    [edge, '/keyed'],
    [edge, '/costed', { 'x-cost': '-1' }],
    [edge, '/one', { host: 'a?' }],
    [edge, '/nowhere'],
    [edge, `/${long}`],
    [edge, '/costed', key('1')],
    [edge, '/costed', key('2')],
    [edge, '/one'],
    [edge, '/one'],
    [down, '/degraded'],
    [down, '/degraded'],
    [edge, '/keyed', { 'x-key': long }],
    [wrong, '/one'],
    [away, '/one'],
    [away, '/degraded'],
    [down, '/one'],
    [edge, '/keyed', { 'x-key': 'k' }],
    [edge, '/one', { via: '1.1 sluicegate' }],
  ]);
  const seen = [];
  for (const [gateway_, path, headers = {}] of asked) {
    const reply = await gateway_.send(path, { headers });
    if (reply.status !== 200) seen.push(`${reply.status} ${problem(reply, reply.status).title}`);
  }
  assert.deepEqual([...new Set(seen)].toSorted(), rows.toSorted());
});
