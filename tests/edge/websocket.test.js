// WebSockets through the gateway: the handshake counts, the frames pass.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { before, describe, test } from 'node:test';
import { left } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const accept = (/** @type {string} */ key) =>
  createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');

/** A text frame of at most 125 bytes (RFC 6455 section 5.2). @param {string} text @param {boolean} masked */
function frame(text, masked) {
  const payload = Buffer.from(text);
  const head = Buffer.of(0x81, (masked ? 0x80 : 0) | payload.length);
  if (!masked) return Buffer.concat([head, payload]);
  const mask = Buffer.of(1, 2, 3, 4);
  return Buffer.concat([head, mask, payload.map((byte, index) => byte ^ mask[index % 4])]);
}

/** The text of one whole frame. @param {Buffer} data */
function unframed(data) {
  const masked = (data[1] & 0x80) !== 0;
  const length = data[1] & 0x7f;
  const mask = masked ? data.subarray(2, 6) : Buffer.alloc(4);
  const from = masked ? 6 : 2;
  return Buffer.from(data.subarray(from, from + length).map((byte, index) => byte ^ mask[index % 4])).toString();
}

/** Handshakes that reached the origin. @type {import('node:http').IncomingMessage[]} */
const shaken = [];

/** @param {import('./support/world.js').Edge} edge @param {string} path */
function handshake(edge, path) {
  const headers = {
    ...{ connection: 'Upgrade', upgrade: 'websocket', 'cf-connecting-ip': '192.0.2.1', cookie: 'a=1' },
    ...{ 'sec-websocket-key': KEY, 'sec-websocket-version': '13' },
  };
  const outgoing = request(edge.url + path, { headers });
  outgoing.end();
  return new Promise((resolve, reject) => {
    outgoing.on('upgrade', (response, socket) => resolve({ response, socket }));
    outgoing.on('response', (response) => resolve({ response }));
    outgoing.on('error', reject);
  });
}

describe('a WebSocket', () => {
  const text = policy([limit('a')], [route('/a', ['a'])]);

  before(() => {
    world.origin.server.on('upgrade', (asked, socket) => {
      shaken.push(asked);
      if (asked.url === '/a?refuse') {
        socket.end(
          'HTTP/1.1 426 Upgrade Required\r\nContent-Length: 4\r\nX-Own: kept\r\nConnection: close\r\n\r\nnope',
        );
        return;
      }
      const answer = accept(String(asked.headers['sec-websocket-key']));
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${answer}\r\n\r\n`,
      );
      socket.on('error', () => {});
      socket.on('data', (data) => {
        if ((data[0] & 0x0f) === 1) socket.write(frame(`echo of ${unframed(data)}`, false));
        else socket.end(Buffer.of(0x88, 0));
      });
    });
  });

  test('is upgraded, and echoes a frame; the handshake counts', async () => {
    // FIELD-REPORTS B60.
    const edge = await world.gateway(text);
    const { response, socket } = await handshake(edge, '/a');
    assert.equal(response.statusCode, 101);
    assert.equal(response.headers['sec-websocket-accept'], accept(KEY));
    for (const name of ['ratelimit', 'ratelimit-policy', 'sluicegate-tier'])
      assert.equal(response.headers[name], undefined);
    for (const word of ['one', 'two']) {
      socket.write(frame(word, true));
      const [data] = await once(socket, 'data');
      assert.equal(unframed(data), `echo of ${word}`);
    }
    socket.destroy();
    assert.equal(shaken.at(-1)?.headers.cookie, 'a=1');
    assert.equal(left(await edge.send('/a'), 'a'), 1);
  });

  test('passes to a service binding', async () => {
    const routes = [route('/a', ['a'], { origin: 'binding:API' })];
    const services = { API: `127.0.0.1:${world.origin.port}` };
    const edge = await world.gateway(policy([limit('a')], routes), { ORIGIN: 'http://127.0.0.1:1' }, services);
    const { response, socket } = await handshake(edge, '/a');
    assert.equal(response.statusCode, 101);
    socket.write(frame('bound', true));
    const [data] = await once(socket, 'data');
    assert.equal(unframed(data), 'echo of bound');
    socket.destroy();
  });

  test('is refused like any request', async () => {
    const edge = await world.gateway(text);
    for (let sent = 0; sent < 3; sent += 1) await edge.send('/a');
    const reached = shaken.length;
    const { response } = await handshake(edge, '/a');
    assert.equal(response.statusCode, 429);
    assert.equal(response.headers['content-type'], 'application/problem+json');
    response.resume();
    assert.equal(shaken.length, reached);
  });

  test('that the origin refuses gets the origin’s answer', async () => {
    const edge = await world.gateway(text);
    const { response } = await handshake(edge, '/a?refuse');
    assert.deepEqual([response.statusCode, response.headers['x-own']], [426, 'kept']);
    let body = '';
    for await (const chunk of response) body += chunk;
    assert.equal(body, 'nope');
  });

  test('passes while the store is down and the limit says open', async () => {
    const vars = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' };
    const edge = await world.gateway(policy([limit('a', { on_store_error: 'open' })]), vars);
    const { response, socket } = await handshake(edge, '/a');
    assert.equal(response.statusCode, 101);
    socket.destroy();
  });
});
