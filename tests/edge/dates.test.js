// The oldest compatibility date that is stated (docs/compatibility.md), in short; SLUICEGATE_COMPATIBILITY_DATE runs
// every test at another date.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS } from '../../dev/workerd.js';
import { left, problem, QUOTA_EXCEEDED } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { concurrency, held, open, untilHeld } from './support/slots.js';
import { useWorld } from './support/world.js';

const OLDEST = '2024-06-03';

const world = useWorld();
const root = new URL('../../', import.meta.url);
const text = policy([limit('a', { limit: 5 }), concurrency('held')], [route('/a', ['a']), route('/held', ['held'])]);

test('the oldest: paths and bodies as they are told, a refusal, a slot that is free when its client has gone', async () => {
  const edge = await world.gateway(text, {}, {}, { compatibilityDate: OLDEST });
  world.origin.handlers.set('/a', (response, { body, path }) => response.end(path + body));
  for (const path of ['/%2e/a', '/x/.%2E/a'])
    assert.equal((await edge.send(path)).text, '/a', 'as a URL parser has it');
  for (const [index, rest] of [2, 1, 0].entries()) {
    const reply = await edge.send('/a?x=%7E', { method: 'POST', body: `body ${index}` });
    assert.deepEqual([reply.status, reply.text, left(reply, 'a')], [200, `/a?x=%7Ebody ${index}`, rest]);
  }
  assert.equal(problem(await edge.send('/a', { method: 'POST', body: 'one more' }), 429).type, QUOTA_EXCEEDED);

  held(world, '/held');
  const stream = await open(edge, '/held');
  await once(stream.response, 'data');
  await untilHeld(world, 'held', 1);
  stream.reset();
  await untilHeld(world, 'held', 0);
});

test('wrangler.toml has the date and the flags that tests run at, and the page the oldest', () => {
  const read = (/** @type {string} */ file) => readFileSync(new URL(file, root), 'utf8');
  const said = (/** @type {string} */ field) =>
    JSON.parse(new RegExp(`^${field} = (.+)$`, 'm').exec(read('wrangler.toml'))?.[1] ?? 'null');
  const asked = process.env.SLUICEGATE_COMPATIBILITY_DATE;
  assert.equal(COMPATIBILITY_DATE, asked || said('compatibility_date'));
  assert.deepEqual(COMPATIBILITY_FLAGS, said('compatibility_flags'));
  assert.ok(read('docs/compatibility.md').includes(OLDEST));
});
