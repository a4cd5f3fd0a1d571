// The local store endpoint: Upstash's REST protocol over HTTP, in front of a real Redis.
import { createServer } from 'node:http';
import { connectBackend } from './backend.js';
import { createExecutor } from './execute.js';
import { createFaults } from './faults.js';
import { createTimers, inject, send } from './inject.js';
import { errorBody, parseRequest, Refusal, tokenOf, tooLarge, UNAUTHORIZED } from './protocol.js';
import { createScripts } from './scripts.js';
import { createStats } from './stats.js';

/** @typedef {import('node:http').IncomingMessage} IncomingMessage */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

/**
 * @typedef {object} Store
 * @property {string} url
 * @property {number} port
 * @property {string} token
 * @property {import('./faults.js').Faults} faults
 * @property {import('./stats.js').Stats} stats
 * @property {() => Promise<void>} close ends every connection, stalled ones included
 */

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT']);
const MAX_BODY = 10 * 1024 * 1024;

/**
 * Listens once Redis has been tried; a Redis that is away does not fail it, requests are answered 503 until it is back.
 * @param {object} [options]
 * @param {string} [options.redis]
 * @param {number} [options.port] 0 picks a free one
 * @param {string} [options.host]
 * @param {string} [options.token]
 * @param {'upstash' | 'redis'} [options.dialect] `redis` leaves `allow-key-locking` in, which a plain Redis refuses
 * @param {number} [options.timeout] ms a command may take in Redis before the endpoint answers without it
 * @param {number} [options.maxBody] bytes
 * @param {(state: 'up' | 'down', error?: Error) => void} [options.onRedis] told when Redis goes and when it comes back
 * @returns {Promise<Store>}
 */
export async function startStore({
  redis = 'redis://127.0.0.1:6379',
  port = 0,
  host = '127.0.0.1',
  token = 'local',
  dialect = 'upstash',
  timeout = 2000,
  maxBody = MAX_BODY,
  onRedis = () => {},
} = {}) {
  const faults = createFaults();
  const stats = createStats();
  const timers = createTimers();
  const backend = await connectBackend(redis, { timeout, onState: onRedis });
  const execute = createExecutor(backend, createScripts().rewrite);

  /** @param {IncomingMessage} req @param {ServerResponse} res @param {Buffer} body */
  async function answer(req, res, body) {
    const url = String(req.url);
    const request = parseRequest(url, body);
    const commands = request.commands.map(({ args }) => args.map(String));
    const names = request.commands.map(({ name }) => name);
    const { method = '', headers } = req;
    stats.record({ at: Date.now(), method, path: url, headers, form: request.form, commands }, names);

    const base64 = req.headers['upstash-encoding'] === 'base64';
    const run = ({ asSent = dialect === 'redis' } = {}) => execute(request, { base64, asSent });
    const fault = faults.idle() ? undefined : faults.take(commands);
    if (fault) return inject(fault, { res, request, run, timers });
    send(res, await run());
  }

  const server = createServer((req, res) => {
    stats.requests += 1;
    const refused = refusalOf(req, token);
    if (refused) {
      req.resume();
      return refuse(res, refused);
    }
    readBody(req, maxBody, (error, body) => {
      if (error) return refuse(res, error);
      answer(req, res, body).catch((failure) => refuse(res, failure));
    });
  });
  // Longer than clients keep idle connections, so that it is never this end that closes one as it is being used.
  server.keepAliveTimeout = 75_000;
  server.on('clientError', (error, socket) => {
    if (!socket.writable) return socket.destroy(error);
    const body = errorBody('ERR malformed HTTP request');
    const head = `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
    socket.end(`${head}\r\nConnection: close\r\n\r\n${body}`);
  });

  try {
    await listen(server, port, host);
  } catch (error) {
    backend.close();
    throw error;
  }
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());

  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`,
    port: address.port,
    token,
    faults,
    stats,
    close() {
      timers.close();
      backend.close();
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

/** @param {IncomingMessage} req @param {string} token */
function refusalOf(req, token) {
  if (!METHODS.has(String(req.method))) return new Refusal(405, 'ERR method not allowed');
  try {
    if (tokenOf(String(req.url), req.headers.authorization) === token) return undefined;
  } catch (error) {
    return error;
  }
  return new Refusal(401, UNAUTHORIZED);
}

/** @param {ServerResponse} res @param {unknown} error */
function refuse(res, error) {
  if (res.headersSent) return res.destroy();
  const status = error instanceof Refusal ? error.status : 500;
  send(res, { status, body: errorBody(error instanceof Error ? error.message : String(error)) });
}

const NO_BODY = Buffer.alloc(0);

/**
 * @param {IncomingMessage} req
 * @param {number} limit bytes
 * @param {(error: Refusal | undefined, body: Buffer) => void} done called once, and never for a client that went away
 */
function readBody(req, limit, done) {
  /** @type {Buffer[]} */
  const chunks = [];
  let size = 0;
  req.on('data', (/** @type {Buffer} */ chunk) => {
    size += chunk.length;
    chunks.push(chunk);
    if (size <= limit) return;
    // The rest is read and dropped: closing on a client that still sends would cost it the answer.
    req.removeAllListeners('data').removeAllListeners('end').resume();
    done(tooLarge(limit, Math.max(size, Number(req.headers['content-length'] ?? 0))), NO_BODY);
  });
  req.on('end', () => done(undefined, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
  req.on('error', () => {});
}

/** @param {import('node:http').Server} server @param {number} port @param {string} host */
function listen(server, port, host) {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve(undefined);
    });
  });
}
