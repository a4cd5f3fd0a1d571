// Whatever ends a request frees its slot: the client that goes in each phase, the origin that fails in each.
// FIELD-REPORTS: workerd 6832 (disconnects no longer cancel streams), workerd 4638 (request.signal and streams).
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { problem } from '../support/fields.js';
import { policy, route } from '../support/policy.js';
import { begin, concurrency, held, holders, open, storeClock, untilHeld } from '../support/slots.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();
const routes = [route('/a', ['a']), route('/b', ['a'])];
const text = policy([concurrency('a')], routes);
/** Whose leases end within a test, where nothing else can free a slot. */
const short = policy([concurrency('a', { lease: '2s' })], routes, { store: { timeout: '500ms' } });

/** @param {import('node:http').ServerResponse[]} responses */
const arrived = (responses) => until(() => responses.length > 0, 'the origin to be asked');

describe('a client that goes', () => {
  test('while the store is asked, its connection broken: free with the reply', async () => {
    const edge = await world.gateway(text);
    world.store.faults.push(FAULTS.late(300));
    const asked = begin(edge, '/a');
    await untilHeld(world, 'a', 1);
    asked.reset();
    await untilHeld(world, 'a', 0);
  });

  test('before the head, its connection broken: free, and the origin is told', async () => {
    const edge = await world.gateway(text);
    const waiting = held(world, '/a', () => {});
    const asked = begin(edge, '/a');
    await arrived(waiting);
    await untilHeld(world, 'a', 1);
    asked.reset();
    await untilHeld(world, 'a', 0);
    await until(() => waiting[0].destroyed, 'the origin to be left');
  });

  test('before the head, in good order: free with the head', async () => {
    const edge = await world.gateway(text);
    const waiting = held(world, '/a', () => {});
    const asked = begin(edge, '/a');
    await arrived(waiting);
    asked.leave();
    waiting[0].writeHead(200);
    waiting[0].end('too late');
    await untilHeld(world, 'a', 0);
  });

  test('while an upload runs: free', async () => {
    const edge = await world.gateway(text);
    const outgoing = request(`${edge.url}/a`, { method: 'POST', headers: { 'cf-connecting-ip': '192.0.2.1' } });
    outgoing.on('error', () => {});
    outgoing.write('half of it');
    await untilHeld(world, 'a', 1);
    outgoing.destroy();
    await untilHeld(world, 'a', 0);
  });

  test('in the middle of a download: free', async () => {
    const edge = await world.gateway(text);
    const size = 64 * 1024 * 1024;
    held(world, '/a', (response) => {
      response.writeHead(200, { 'content-length': size });
      response.end(Buffer.alloc(size));
    });
    const download = await open(edge, '/a');
    await once(download.response, 'data');
    assert.equal((await holders(world, 'a')).length, 1);
    download.leave();
    await untilHeld(world, 'a', 0);
  });

  for (const how of /** @type {const} */ (['leave', 'reset'])) {
    test(`from a stream that speaks (${how}): free with what is said next`, async () => {
      const edge = await world.gateway(text);
      const [stream] = [held(world, '/a')];
      const client = await open(edge, '/a');
      await once(client.response, 'data');
      client[how]();
      const talking = setInterval(() => stream[0].write('data: 2\n\n'), 20);
      await untilHeld(world, 'a', 0).finally(() => clearInterval(talking));
      await until(() => stream[0].destroyed, 'the origin to be left');
    });
  }

  test('from a silent stream, its connection broken: free at once', async () => {
    const edge = await world.gateway(text);
    const stream = held(world, '/a');
    const client = await open(edge, '/a');
    await once(client.response, 'data');
    client.reset();
    await untilHeld(world, 'a', 0);
    await until(() => stream[0].destroyed, 'the origin to be left');
  });

  test('from a silent stream, in good order: free with the next event', async () => {
    const edge = await world.gateway(text);
    const stream = held(world, '/a');
    const client = await open(edge, '/a');
    await once(client.response, 'data');
    client.leave();
    const talking = setInterval(() => stream[0].write(': still here\n\n'), 20);
    await untilHeld(world, 'a', 0).finally(() => clearInterval(talking));
  });

  test('a hundred of them, each when it likes: nothing is held', async () => {
    const edge = await world.gateway(policy([concurrency('a', { limit: 100 })], routes));
    const streams = held(world, '/a');
    await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const client = begin(edge, '/a');
        if (index % 4 === 0) return client.leave();
        const response = await client.head;
        if (index % 4 === 1) return client.reset();
        await once(response, 'data');
        return index % 4 === 2 ? client.reset() : client.leave();
      }),
    );
    const talking = setInterval(() => streams.map((stream) => stream.write('data: 2\n\n')), 50);
    await untilHeld(world, 'a', 0).finally(() => clearInterval(talking));
  });
});

describe('an origin that fails', () => {
  test('is down: 502, and free', async () => {
    const edge = await world.gateway(text, { ORIGIN: 'http://127.0.0.1:1' });
    for (let sent = 0; sent < 3; sent += 1) {
      problem(await edge.send('/a'), 502);
      await untilHeld(world, 'a', 0);
    }
  });

  test('is slow: 504, and free; what was charged beside stays charged', async () => {
    const edge = await world.gateway(policy([concurrency('a')], routes, { gateway: { origin_timeout: '100ms' } }));
    const waiting = held(world, '/a', () => {});
    problem(await edge.send('/a'), 504);
    await untilHeld(world, 'a', 0);
    await until(() => waiting[0].destroyed, 'the origin to be left');
  });

  test('resets before its head: 502, and free', async () => {
    const edge = await world.gateway(text);
    held(world, '/a', (response) => response.socket?.resetAndDestroy());
    problem(await edge.send('/a'), 502);
    await untilHeld(world, 'a', 0);
  });

  for (const length of [undefined, 1000]) {
    test(`cuts a body ${length ? 'with' : 'without'} a length: the client sees it cut, and it is free`, async () => {
      const edge = await world.gateway(text);
      const stream = held(world, '/a', (response) => {
        response.writeHead(200, length ? { 'content-length': length } : {});
        response.write('half');
      });
      const client = await open(edge, '/a');
      assert.equal((await holders(world, 'a')).length, 1);
      stream[0].destroy();
      await assert.rejects(client.whole());
      await untilHeld(world, 'a', 0);
    });
  }
});

describe('a lease', () => {
  test('is renewed while the response runs, and its fence stays', async () => {
    const edge = await world.gateway(short);
    const stream = held(world, '/a');
    const client = await open(edge, '/a');
    const [taken] = await holders(world, 'a');
    await until(async () => (await storeClock(world)) > taken.expires + 1000, 'longer than the lease');
    const [now] = await holders(world, 'a');
    assert.deepEqual([now.id, now.fence], [taken.id, taken.fence]);
    assert.ok(now.expires > taken.expires);
    assert.equal((await edge.send('/b')).status, 429);
    stream[0].end();
    await client.whole();
    await untilHeld(world, 'a', 0);
  });

  test('is renewed while the origin thinks', async () => {
    const edge = await world.gateway(short);
    const waiting = held(world, '/a', () => {});
    const asked = begin(edge, '/a');
    await untilHeld(world, 'a', 1);
    const [taken] = await holders(world, 'a');
    await until(async () => (await holders(world, 'a'))[0].expires > taken.expires, 'a renewal');
    waiting[0].end('thought');
    (await asked.head).resume();
    await untilHeld(world, 'a', 0);
  });

  test('frees the slot of a gateway that was killed, within a second, and not before', async () => {
    const [killed, other] = await Promise.all([world.gateway(short), world.gateway(short)]);
    held(world, '/a');
    await open(killed, '/a');
    process.kill(killed.pid, 'SIGKILL');
    const [last] = await holders(world, 'a');
    let refused = 0;
    await until(async () => {
      const { response } = await open(other, '/a');
      if (response.statusCode === 429) refused += 1;
      return response.statusCode === 200;
    }, 'the slot');
    // Fences are 1,024 times the store's clock.
    const took = Math.floor((await holders(world, 'a'))[0].fence / 1024);
    assert.ok(refused > 0);
    assert.ok(took >= last.expires && took <= last.expires + 1000, `${took - last.expires} ms past the lease`);
  });

  test('of a gateway that was stopped beyond it is another’s, and nothing it says changes that', async () => {
    const text = policy([concurrency('a', { lease: '3s' })], routes, { store: { timeout: '1s' } });
    const [stopped, other] = await Promise.all([world.gateway(text), world.gateway(text)]);
    const streams = held(world, '/a');
    const first = await open(stopped, '/a');
    const [lost] = await holders(world, 'a');
    process.kill(stopped.pid, 'SIGSTOP');
    await until(async () => (await open(other, '/a')).response.statusCode === 200, 'the slot');
    process.kill(stopped.pid, 'SIGCONT');
    await stopped.logged('lease-lost');
    streams[0].end();
    await first.whole();
    assert.equal((await stopped.send('/b')).status, 429);
    const now = await holders(world, 'a');
    assert.equal(now.length, 1);
    assert.ok(now[0].fence > lost.fence && now[0].fence >= lost.expires * 1024, 'taken when it had ended');
  });

  test('ends the slot of a WebSocket, which nobody sees the end of', async () => {
    world.origin.server.once('upgrade', (asked, socket) => {
      const key = `${asked.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
      const accept = createHash('sha1').update(key).digest('base64');
      socket.on('error', () => {});
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      );
    });
    const edge = await world.gateway(short);
    const handshake = {
      ...{ connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
      ...{ 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==', 'cf-connecting-ip': '192.0.2.1' },
    };
    const outgoing = request(`${edge.url}/a`, { headers: handshake });
    outgoing.end();
    const [response, socket] = await once(outgoing, 'upgrade');
    assert.equal(response.statusCode, 101);
    const [taken] = await holders(world, 'a');
    await until(async () => (await storeClock(world)) > taken.expires, 'the end of the lease');
    assert.equal((await holders(world, 'a')).length, 0, 'it is not renewed');
    socket.destroy();
  });
});
