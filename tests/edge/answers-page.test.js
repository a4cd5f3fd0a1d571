// docs/answers.md: its table of statuses, against the running Worker. Its examples are run by tests/docs/.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();
const page = readFileSync(new URL('../../docs/answers.md', import.meta.url), 'utf8');

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
