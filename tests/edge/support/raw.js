// Both ends of the gateway as plain sockets, for what a client or a server of HTTP would tidy up: every byte is seen as it
// came, one request a connection. Text is Latin-1, a character a byte.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { after, before, beforeEach } from 'node:test';

/** @typedef {import('node:net').Socket} Socket */

/**
 * @typedef {object} Arrived a request at the origin
 * @property {string} head as far as its empty line, without it
 * @property {string} target of the request line
 * @property {Socket} socket to answer on
 * @property {Buffer[]} body what has come of it so far
 */

/** @typedef {(arrived: Arrived) => unknown} Serve */

export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok';

/**
 * @typedef {object} RawOrigin
 * @property {string} url
 * @property {number} port
 * @property {Arrived[]} arrived requests so far, oldest first
 * @property {Serve} serve answers the next requests; at first with {@link OK}
 */

/** An origin for a whole test file; before each test it is empty, and answers with {@link OK}. @returns {RawOrigin} */
export function useRawOrigin() {
  /** @type {RawOrigin} */
  const origin = { url: '', port: 0, arrived: [], serve: answer(OK) };
  /** @type {Set<Socket>} */
  const open = new Set();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => {});
    let got = Buffer.alloc(0);
    const untilHead = (/** @type {Buffer} */ data) => {
      got = Buffer.concat([got, data]);
      const end = got.indexOf('\r\n\r\n');
      if (end < 0) return;
      socket.off('data', untilHead);
      const head = got.toString('latin1', 0, end);
      /** @type {Arrived} */
      const arrived = { head, target: targetOf(head), socket, body: [] };
      if (end + 4 < got.length) arrived.body.push(got.subarray(end + 4));
      socket.on('data', (chunk) => arrived.body.push(chunk));
      origin.arrived.push(arrived);
      origin.serve(arrived);
    };
    socket.on('data', untilHead);
  });
  before(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
    Object.assign(origin, { url: `http://127.0.0.1:${port}`, port });
  });
  beforeEach(() => {
    origin.arrived.length = 0;
    origin.serve = answer(OK);
  });
  after(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return origin;
}

/** Serves the same bytes to everyone, and closes. @param {string | Uint8Array} bytes @returns {Serve} */
export function answer(bytes) {
  return ({ socket }) => socket.end(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
}

/** @param {string} head */
const targetOf = (head) => head.slice(head.indexOf(' ') + 1, head.lastIndexOf(' ', head.indexOf('\r\n')));

/** Values of a header field, in the order sent. @param {string} head @param {string} name */
export function fieldsOf(head, name) {
  const lines = head.split('\r\n').slice(1);
  const named = lines.filter((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}:`));
  return named.map((line) => line.slice(name.length + 1).trim());
}

/**
 * @typedef {object} RawReply
 * @property {number} status
 * @property {string} head as far as its empty line, without it
 * @property {Buffer} body as it came, without the chunked coding
 * @property {boolean} whole whether the body ended as its head had announced
 */

/**
 * Sends bytes and reads until the gateway closes. The request should say `Connection: close`.
 *
 * @param {number} port
 * @param {string | Uint8Array} bytes
 * @returns {Promise<RawReply>}
 */
export async function exchange(port, bytes) {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  /** @type {Buffer[]} */
  const got = [];
  socket.on('data', (data) => got.push(data));
  await once(socket, 'close');
  return replyOf(Buffer.concat(got));
}

/** The bytes of a request head, with the usual fields unless they are said. @param {string} line @param {string[]} [fields] */
export function requestOf(line, fields = []) {
  const usual = ['Host: api.test', 'CF-Connecting-IP: 192.0.2.1', 'Connection: close'];
  const nameOf = (/** @type {string} */ field) => field.slice(0, field.indexOf(':')).toLowerCase();
  const said = new Set(fields.map(nameOf));
  return `${[`${line} HTTP/1.1`, ...usual.filter((field) => !said.has(nameOf(field))), ...fields].join('\r\n')}\r\n\r\n`;
}

/** @param {Buffer} got @returns {RawReply} */
export function replyOf(got) {
  const end = got.indexOf('\r\n\r\n');
  const head = got.toString('latin1', 0, Math.max(end, 0));
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1] ?? 0);
  const rest = got.subarray(end + 4);
  if (fieldsOf(head, 'transfer-encoding').includes('chunked')) return { status, head, ...unchunked(rest) };
  const length = fieldsOf(head, 'content-length')[0];
  return { status, head, body: rest, whole: length === undefined || Number(length) === rest.length };
}

/** @param {Buffer} data */
function unchunked(data) {
  const chunks = [];
  for (let at = 0; ; ) {
    const line = data.indexOf('\r\n', at);
    const size = line < 0 ? Number.NaN : Number.parseInt(data.toString('latin1', at, line), 16);
    if (Number.isNaN(size) || line + 2 + size > data.length) return { body: Buffer.concat(chunks), whole: false };
    if (size === 0) return { body: Buffer.concat(chunks), whole: data.toString('latin1', line) === '\r\n\r\n' };
    chunks.push(data.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}
