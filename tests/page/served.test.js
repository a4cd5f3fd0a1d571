// How the status page is served: to whom, with what headers, and with nothing in it that is not its own.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { problem } from '../edge/support/fields.js';
import { limit, policy, route } from '../edge/support/policy.js';
import { ADMIN_TOKEN, useWorld } from '../edge/support/world.js';

const world = useWorld();
const PAGE = '/.sluicegate/';

test('without a token, where ADMIN_TOKEN is set; else it is not there', async () => {
  const all = policy([limit('a')], [route('/{*rest}', ['a'])]);
  const edge = await world.gateway(all);
  for (const path of [PAGE, '/.sluicegate', `${PAGE}?x=1`]) {
    const reply = await edge.send(path);
    assert.deepEqual([reply.status, reply.headers['content-type']], [200, 'text/html; charset=utf-8'], path);
    assert.equal(reply.headers.ratelimit, undefined);
  }
  const head = await edge.send(PAGE, { method: 'HEAD' });
  assert.deepEqual([head.status, head.text], [200, '']);
  assert.equal(problem(await edge.send(PAGE, { method: 'POST' }), 405).title, 'Method not allowed');
  for (const path of [`${PAGE}index.html`, `${PAGE}%2e`, `${PAGE}v1/`]) {
    assert.notEqual((await edge.send(path)).headers['content-type'], 'text/html; charset=utf-8', path);
  }
  const off = await world.gateway(all, { ADMIN_TOKEN: undefined });
  problem(await off.send(PAGE), 404);
  assert.deepEqual([world.origin.seen.length, world.store.stats.requests], [0, 0]);
});

test('nothing but its own style and script may run, and it names no other host', async () => {
  const edge = await world.gateway(policy([limit('a')]), { KEY_SECRET: 'key-secret-for-tests' });
  const { text, headers } = await edge.send(PAGE);
  const security = String(headers['content-security-policy']);
  const inlined = { 'script-src': /<script type="module">(.*?)<\/script>/s, 'style-src': /<style>(.*?)<\/style>/s };
  for (const [directive, block] of Object.entries(inlined)) {
    const digest = createHash('sha256')
      .update(String(block.exec(text)?.[1]))
      .digest('base64');
    assert.ok(security.includes(`${directive} 'sha256-${digest}';`), directive);
  }
  for (const part of ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]) {
    assert.ok(security.includes(part), part);
  }
  assert.doesNotMatch(security, /unsafe|https?:|\*/);
  assert.match(text, /<link rel="icon" href="data:,">/, 'else browsers ask the origin for an icon');
  assert.ok(security.includes('img-src data:;'));
  assert.equal(text.match(/<script/g)?.length, 1);
  assert.doesNotMatch(text.replace(/<script.*<\/script>/s, ''), /\son\w+=|\sstyle=/);
  assert.deepEqual(new Set(text.match(/https?:\/\/[^"'`\s]+/g)), new Set(['http://www.w3.org/2000/svg']));
  for (const secret of [ADMIN_TOKEN, 'key-secret-for-tests', world.store.url, world.store.token, world.origin.url]) {
    assert.ok(!text.includes(secret), secret);
  }
  assert.equal(headers['cache-control'], 'no-store');
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['referrer-policy'], 'no-referrer');
});
