// An origin whose length is said twice, or beside chunks: the answer passes as it does where no slot is held.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limit, policy, route } from '../support/policy.js';
import { concurrency, untilHeld } from '../support/slots.js';
import { useWorld } from '../support/world.js';

const world = useWorld();

const ODD = {
  twice: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
  listed: 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok',
  chunked: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n',
};

test('passes held as it does without a slot, and the slot is free', async () => {
  const limits = [concurrency('slot', { limit: 9 }), limit('rate', { limit: 99 })];
  const edge = await world.gateway(policy(limits, [route('/held/{odd}', ['slot']), route('/free/{odd}', ['rate'])]));
  for (const [odd, bytes] of Object.entries(ODD)) {
    for (const path of [`/held/${odd}`, `/free/${odd}`]) {
      world.origin.handlers.set(path, (/** @type {any} */ response) => response.socket.end(bytes));
      const reply = await edge.send(path);
      assert.deepEqual([reply.status, reply.text], [200, 'ok'], path);
    }
  }
  await untilHeld(world, 'slot', 0);
});
