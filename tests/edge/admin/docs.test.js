// The examples of docs/admin.md and docs/observability.md, run in the order in which they stand.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ADMIN_TOKEN, useWorld } from '../support/world.js';
import { holds } from './openapi.js';

const world = useWorld();

/** The limits and the route of the README's policy. */
const POLICY = {
  version: 1,
  gateway: { origin: 'http://origin.invalid' },
  store: { timeout: '10s' },
  limits: [
    {
      ...{ name: 'client-burst', algorithm: 'token-bucket', limit: 50, window: '1s', burst: 100, key: ['ip'] },
      on_store_error: 'degraded',
    },
    {
      ...{ name: 'tenant-minute', algorithm: 'sliding-window', limit: 60, window: '1m', key: ['header:x-tenant'] },
      ...{ plan: 'header:x-plan', plans: { free: 60, pro: 600, staff: 'unlimited' } },
      ...{ cost: { header: 'x-cost', default: 1, max: 100 }, on_store_error: 'closed' },
    },
  ],
  routes: [{ name: 'chat', path: '/v1/chat/{*rest}', methods: ['POST'], limits: ['client-burst', 'tenant-minute'] }],
};

/** What an example shows and another run need not: moments, durations, names drawn at random, and what is counted. */
const OF_ITS_OWN =
  /^(reset_ms|kept_until(_ms)?|isolate|digest|uptime_ms|latency_ms|calls|window|noscript|bytes|subjects|refusals|now_ms)$/;
const COUNTED = /^(allowed|refused|spared|tiers)$/;

/** @param {string} page @returns {{ command: string, answer: string }[]} */
function examples(page) {
  const text = readFileSync(new URL(`../../../docs/${page}`, import.meta.url), 'utf8');
  return [...text.matchAll(/^\$ (curl .*)\n(\{.*)$/gm)].map(([, command, answer]) => ({ command, answer }));
}

/** @param {string} command */
function sent(command) {
  const path = String(/\$GATEWAY(\/[^\s"]*)/.exec(command)?.[1]);
  const body = /-d '([^']*)'/.exec(command)?.[1];
  const method = /-X (\w+)/.exec(command)?.[1] ?? 'GET';
  /** @type {Record<string, string>} */
  const headers = command.includes('-H "$AUTH"') ? { authorization: `Bearer ${ADMIN_TOKEN}` } : {};
  return { path, options: { method, body, headers, ip: '' } };
}

/** @param {any} value @param {RegExp} own @returns {any} the value with what is its own left out of its fields */
function common(value, own) {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((one) => common(one, own));
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, own.test(name) ? '…' : common(field, own)]),
  );
}

test('docs/admin.md', async () => {
  const edge = await world.gateway(POLICY);
  const all = examples('admin.md');
  assert.ok(all.length >= 10, `${all.length}`);
  for (const { command, answer } of all) {
    const { path, options } = sent(command);
    const reply = await edge.send(path, options);
    holds(options.method, path, reply);
    assert.deepEqual(Object.keys(reply.json()), Object.keys(JSON.parse(answer)), command);
    assert.deepEqual(common(reply.json(), OF_ITS_OWN), common(JSON.parse(answer), OF_ITS_OWN), command);
  }
});

test('docs/observability.md', async () => {
  const edge = await world.gateway(POLICY);
  await edge.send('/v1/chat/x', { method: 'POST', headers: { 'x-tenant': 'acme' } });
  const own = new RegExp(`${OF_ITS_OWN.source}|${COUNTED.source}`);
  for (const { command, answer } of examples('observability.md')) {
    const { path, options } = sent(command);
    const reply = await edge.send(path, options);
    holds(options.method, path, reply);
    assert.deepEqual(common(reply.json(), own), common(JSON.parse(answer), own), command);
  }
});
