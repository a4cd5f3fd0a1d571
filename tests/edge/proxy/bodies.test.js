// Bodies are streams: whatever their size, they pass at the pace of whoever is slower and are held by nobody.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { problem } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { answer, exchange, fieldsOf, OK, replyOf, requestOf, useRawOrigin } from '../support/raw.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();

const origin = useRawOrigin();

const wide = policy([limit('a', { limit: 1000 })], [route('/{*rest}', ['a'])]);
const gateway = (/** @type {unknown} */ text = wide) => world.gateway(text, { ORIGIN: origin.url });

const MB = 1_048_576;
const CHUNK = Buffer.alloc(MB / 4, 'a body that repeats, but not by a power of two: ');

/** Peak resident memory of a process so far, in bytes. @param {number} pid */
const peak = (pid) => Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;

/**
 * Writes the chunk again and again, waiting whenever the other side has enough.
 *
 * @param {import('node:net').Socket} socket
 * @param {number} bytes
 */
async function pour(socket, bytes) {
  const hash = createHash('sha256');
  for (let left = bytes; left > 0; left -= CHUNK.length) {
    const part = CHUNK.subarray(0, Math.min(left, CHUNK.length));
    hash.update(part);
    if (!socket.write(part)) await once(socket, 'drain');
  }
  return hash.digest('hex');
}

/** @param {import('node:net').Socket} socket @param {Buffer[]} first */
async function drained(socket, first, bytes = 0) {
  const hash = createHash('sha256');
  let read = 0;
  const take = (/** @type {Buffer} */ chunk) => {
    hash.update(chunk);
    read += chunk.length;
  };
  for (const chunk of first) take(chunk);
  socket.on('data', take);
  await until(() => read >= bytes, `${bytes} bytes`, 120_000);
  return { read, hash: hash.digest('hex') };
}

/** A connection with a request under way. @param {number} port @param {string} request */
function begin(port, request) {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(request);
  /** @type {Buffer[]} */
  const got = [];
  socket.on('data', (data) => got.push(data));
  const text = () => Buffer.concat(got).toString('latin1');
  return { socket, got, text, reply: async () => replyOf(await once(socket, 'close').then(() => Buffer.concat(got))) };
}

// Reports of memory on large bodies: ling-drag0n/CloudPaste issue 210, denuitt1/mhr-cfw issue 119.
describe('100 MB', () => {
  const SIZE = 100 * MB;

  test('up: the same bytes, their length announced, in flat memory', async () => {
    const edge = await gateway();
    await exchange(edge.port, requestOf('GET /'));
    origin.arrived.length = 0;
    origin.serve = () => {};
    const before = peak(edge.pid);
    const { socket, reply } = begin(edge.port, requestOf('POST /', [`Content-Length: ${SIZE}`]));
    const sent = pour(socket, SIZE);
    await until(() => origin.arrived.length > 0, 'the head to arrive');
    const [arrived] = origin.arrived;
    arrived.socket.removeAllListeners('data');
    const { hash } = await drained(arrived.socket, arrived.body.splice(0), SIZE);
    assert.equal(hash, await sent);
    assert.deepEqual(fieldsOf(arrived.head, 'content-length'), [String(SIZE)]);
    arrived.socket.end(OK);
    assert.equal((await reply()).status, 200);
    const grown = peak(edge.pid) - before;
    assert.ok(grown < 30 * MB, `grown by ${(grown / MB).toFixed(1)} MB`);
  });

  test('down: the same, to a client that at first does not read', async () => {
    const edge = await gateway();
    await exchange(edge.port, requestOf('GET /'));
    /** @type {Promise<string>} */
    let sent = Promise.resolve('');
    let stuck = false;
    origin.serve = ({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${SIZE}\r\nConnection: close\r\n\r\n`);
      sent = pour(socket, SIZE);
    };
    const before = peak(edge.pid);
    const socket = connect(edge.port, '127.0.0.1');
    socket.pause();
    socket.write(requestOf('GET /'));
    // The origin is full when no more of it leaves: what the gateway takes in has an end.
    let last = -1;
    await until(async () => {
      const writing = origin.arrived.at(-1)?.socket.bytesWritten ?? 0;
      const waits = (origin.arrived.at(-1)?.socket.writableLength ?? 0) > 0;
      stuck = waits && writing === last;
      last = writing;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return stuck;
    }, 'the origin to be held back');
    assert.ok(last < SIZE / 2, `${(last / MB).toFixed(1)} MB left the origin, and nobody read`);
    /** @type {Buffer[]} */
    const head = [];
    const hash = createHash('sha256');
    let read = -1;
    socket.on('data', (chunk) => {
      if (read >= 0) {
        hash.update(chunk);
        read += chunk.length;
        return;
      }
      head.push(chunk);
      const all = Buffer.concat(head);
      const end = all.indexOf('\r\n\r\n');
      if (end < 0) return;
      hash.update(all.subarray(end + 4));
      read = all.length - end - 4;
    });
    socket.resume();
    await once(socket, 'close');
    assert.equal(read, SIZE);
    assert.equal(hash.digest('hex'), await sent);
    const grown = peak(edge.pid) - before;
    assert.ok(grown < 30 * MB, `grown by ${(grown / MB).toFixed(1)} MB`);
  });
});

describe('the first byte is out before the last is in', () => {
  test('up', async () => {
    const edge = await gateway();
    origin.serve = () => {};
    const { socket, reply } = begin(edge.port, requestOf('POST /', ['Transfer-Encoding: chunked']));
    socket.write('1\r\na\r\n');
    await until(() => origin.arrived[0]?.body.length, 'the first byte to arrive');
    assert.equal(Buffer.concat(origin.arrived[0].body).toString(), '1\r\na\r\n');
    socket.write('1\r\nz\r\n0\r\n\r\n');
    await until(
      () => Buffer.concat(origin.arrived[0].body).toString().endsWith('0\r\n\r\n'),
      'the last byte to arrive',
    );
    origin.arrived[0].socket.end(OK);
    assert.equal((await reply()).status, 200);
  });

  for (const type of ['application/octet-stream', 'text/event-stream']) {
    test(`down, ${type}: each piece is acknowledged before the next is sent`, async () => {
      const edge = await gateway();
      origin.serve = ({ socket }) =>
        socket.write(
          `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`,
        );
      const { text, reply } = begin(edge.port, requestOf('GET /'));
      await until(() => text().includes('\r\n\r\n'), 'the head');
      for (const piece of ['data: 1\n\n', 'data: 2\n\n', ': ping\n\n']) {
        origin.arrived[0].socket.write(`${piece.length.toString(16)}\r\n${piece}\r\n`);
        await until(() => text().includes(piece), piece);
      }
      origin.arrived[0].socket.end('0\r\n\r\n');
      const whole = await reply();
      assert.deepEqual([whole.body.toString(), whole.whole], ['data: 1\n\ndata: 2\n\n: ping\n\n', true]);
    });
  }

  test('both ways at once: an echo while the upload goes on', async () => {
    const edge = await gateway();
    origin.serve = ({ socket }) =>
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n');
    const { socket, text, reply } = begin(edge.port, requestOf('POST /', ['Transfer-Encoding: chunked']));
    for (const piece of ['one', 'two']) {
      socket.write(`3\r\n${piece}\r\n`);
      await until(
        () =>
          Buffer.concat(origin.arrived[0]?.body ?? [])
            .toString()
            .includes(piece),
        `${piece} at the origin`,
      );
      origin.arrived[0].socket.write(`3\r\n${piece}\r\n`);
      await until(() => text().includes(piece), `${piece} at the client`);
    }
    socket.write('0\r\n\r\n');
    origin.arrived[0].socket.end('0\r\n\r\n');
    assert.equal((await reply()).body.toString(), 'onetwo');
  });
});

describe('a body that does not end', () => {
  test('of the origin’s is cut for the client too, never made whole', async () => {
    const edge = await gateway();
    for (const coding of ['Content-Length: 100', 'Transfer-Encoding: chunked']) {
      const part = coding.startsWith('C') ? 'half' : '4\r\nhalf\r\n';
      origin.serve = answer(`HTTP/1.1 200 OK\r\n${coding}\r\nConnection: close\r\n\r\n${part}`);
      const reply = await exchange(edge.port, requestOf('GET /'));
      assert.deepEqual([reply.status, reply.body.toString(), reply.whole], [200, 'half', false], coding);
    }
    origin.serve = answer(OK);
    assert.equal((await exchange(edge.port, requestOf('GET /'))).status, 200);
  });

  test('of the client’s is cut for the origin too', async () => {
    const edge = await gateway();
    origin.serve = () => {};
    const { socket } = begin(edge.port, requestOf('POST /', ['Content-Length: 100']));
    socket.write('half');
    await until(() => origin.arrived[0]?.body.length, 'the half to arrive');
    const closed = once(origin.arrived[0].socket, 'close');
    socket.destroy();
    await closed;
    assert.equal(Buffer.concat(origin.arrived[0].body).toString(), 'half');
    origin.serve = answer(OK);
    assert.equal((await exchange(edge.port, requestOf('GET /'))).status, 200);
  });

  // The platform looks for the client when it has something to send to it; github.com/cloudflare/workerd issue 6832.
  test('because the client has left: the origin is told with the next pieces', async () => {
    const edge = await gateway();
    origin.serve = ({ socket }) => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n');
    const { socket, text } = begin(edge.port, requestOf('GET /'));
    await until(() => text().includes('one'), 'the first piece');
    socket.destroy();
    const [{ socket: atOrigin }] = origin.arrived;
    await until(() => {
      if (!atOrigin.destroyed) atOrigin.write('3\r\ntwo\r\n');
      return atOrigin.destroyed;
    }, 'the connection to be closed');
  });
});

describe('an answer that does not wait for the body', () => {
  test('of the origin’s passes, and what was not read does no harm', async () => {
    const edge = await gateway();
    origin.serve = ({ socket }) =>
      socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig');
    const { text } = begin(edge.port, `${requestOf('POST /', ['Content-Length: 1000000'])}a beginning`);
    await until(() => text().endsWith('big'), 'the answer');
    assert.match(text(), /^HTTP\/1\.1 413 /);
    origin.serve = answer(OK);
    assert.equal((await exchange(edge.port, requestOf('GET /'))).status, 200);
  });

  test('of ours comes before a byte of it: refused, and no 100 Continue', async () => {
    const edge = await gateway(policy([limit('a', { limit: 1 })]));
    await edge.send('/a');
    origin.arrived.length = 0;
    const fields = ['Content-Length: 1000000', 'Expect: 100-continue'];
    const { text } = begin(edge.port, requestOf('POST /a', fields));
    await until(() => text().includes('"status":429'), 'the refusal');
    assert.match(text(), /^HTTP\/1\.1 429 /);
    assert.equal(origin.arrived.length, 0);
  });

  test('where the origin is down: 502 before the body has come', async () => {
    const edge = await world.gateway(wide, { ORIGIN: 'http://127.0.0.1:1' });
    const { text } = begin(edge.port, `${requestOf('POST /a', ['Content-Length: 1000000'])}a beginning`);
    await until(() => text().includes('"status":502'), 'the answer');
  });
});

describe('an origin that does not answer in HTTP', () => {
  for (const [what, bytes] of Object.entries({
    'closes without a word': '',
    'closes within its head': 'HTTP/1.1 200 OK\r\nContent-Le',
    'speaks something else': '220 mail ready\r\n\r\n',
  })) {
    test(`${what}: 502`, async () => {
      const edge = await gateway();
      origin.serve = answer(bytes);
      problem(await edge.send('/a'), 502);
    });
  }
});
