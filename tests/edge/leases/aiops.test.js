// examples/aiops.toml, as it is written.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { many, statuses } from '../support/client.js';
import { example } from '../support/examples.js';
import { problem, rateLimitPolicy } from '../support/fields.js';
import { held, open, slots, untilHeld } from '../support/slots.js';
import { useWorld } from '../support/world.js';

/** With a deadline that a busy machine meets. */
const policy = { ...example('aiops'), store: { timeout: '10s' } };

const world = useWorld();

/**
 * As many as are allowed at once pass, and no more than come back while they are sent: a minute's window slides.
 *
 * @param {number} most
 * @param {number} all of them, enough that some are refused
 * @param {(n: number) => Promise<import('../support/client.js').Reply>} one
 */
async function passInAMinute(most, all, one) {
  const began = performance.now();
  const replies = await many(all, one, 64);
  const seconds = (performance.now() - began) / 1000;
  const { 200: passed, 429: refused } = statuses(replies);
  assert.equal(passed + refused, all);
  assert.ok(passed >= most && passed <= most + (most / 60) * seconds + 1, `${passed} in ${seconds} s`);
  return replies;
}

test('two diagnoses run at once, whoever asked, requests and workers together', async () => {
  const edge = await world.gateway(policy);
  const paths = [1, 2, 3].map((id) => `/v1/incidents/${id}/diagnosis`);
  const streams = paths.map((path) => held(world, path));
  const [first] = [await open(edge, paths[0], { method: 'POST' })];
  await open(edge, paths[1], { method: 'POST', ip: '192.0.2.2' });
  const third = await edge.send(paths[2], { method: 'POST', ip: '192.0.2.3' });
  assert.match(problem(third, 429).detail, /^all slots of diagnoses are taken \(2 at once\)/);
  assert.deepEqual(rateLimitPolicy(third).diagnoses, { q: 2, qu: 'concurrent-requests' });
  problem(await slots(edge, 'diagnoses/-'), 429);
  const worker = slots(edge, 'diagnoses/-?wait=30s', 'POST', { id: 'worker-1' });
  streams[0][0].end();
  await first.whole();
  assert.equal((await worker).status, 201);
  await untilHeld(world, 'diagnoses', 2, '-');
});

test('20 submissions from an address, the form and the API together', async () => {
  const edge = await world.gateway(policy);
  await passInAMinute(20, 30, (n) => edge.send(n % 2 ? '/submit' : '/v1/incidents', { method: 'POST' }));
  assert.equal((await edge.send('/submit', { method: 'POST', ip: '192.0.2.2' })).status, 200);
});

test('500 alerts from a source, whatever its addresses', async () => {
  const edge = await world.gateway(policy);
  const alert = (/** @type {string} */ source) => (/** @type {number} */ n) =>
    edge.send('/hooks/alerts', { method: 'POST', ip: `198.51.100.${n % 30}`, headers: { 'x-source': source } });
  const replies = await passInAMinute(500, 700, alert('prometheus'));
  const refused = replies.find(({ status }) => status === 429);
  assert.deepEqual(refused?.json()['violated-policies'], ['alerts-of-source']);
  assert.equal((await alert('nagios')(200)).status, 200);
  assert.equal((await edge.send('/hooks/alerts', { method: 'POST' })).status, 400);
});

test('50 alerts at once from an address, then 50 a second, whatever its sources', async () => {
  const edge = await world.gateway(policy);
  const began = performance.now();
  const replies = await many(200, (n) =>
    edge.send('/hooks/alerts', { method: 'POST', headers: { 'x-source': `source-${n}` } }),
  );
  const seconds = (performance.now() - began) / 1000;
  const passed = statuses(replies)[200];
  assert.ok(passed >= 50 && passed <= 50 + 50 * seconds + 1, `${passed} in ${seconds} s`);
});
