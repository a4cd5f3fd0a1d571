// The API behind the gateway: keeps what reached it, and answers as a test tells it to.
import { once } from 'node:events';
import { createServer } from 'node:http';

/**
 * @typedef {object} Seen
 * @property {string} method
 * @property {string} path with its query, as it arrived
 * @property {import('node:http').IncomingHttpHeaders} headers
 * @property {string} body
 */

/** @typedef {(response: import('node:http').ServerResponse, seen: Seen) => void} Handler */

/**
 * @typedef {object} Origin
 * @property {string} url
 * @property {number} port
 * @property {Seen[]} seen requests so far, oldest first
 * @property {Map<string, Handler>} handlers by path without its query; any other path answers 200 `origin`
 * @property {import('node:http').Server} server
 * @property {() => Promise<void>} close
 */

/** @returns {Promise<Origin>} */
export async function startOrigin() {
  /** @type {Seen[]} */
  const seen = [];
  /** @type {Map<string, Handler>} */
  const handlers = new Map();
  // The gateway's bounds are tried here, not Node's.
  const server = createServer({ maxHeaderSize: 131_072 }, (request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      const path = String(request.url);
      const entry = { method: String(request.method), path, headers: request.headers, body };
      seen.push(entry);
      const handler = handlers.get(path.replace(/\?.*/s, ''));
      if (handler) return handler(response, entry);
      response.writeHead(200, { 'content-type': 'text/plain', 'content-length': 6 });
      response.end(entry.method === 'HEAD' ? undefined : 'origin');
    });
  });
  server.keepAliveTimeout = 75_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    seen,
    handlers,
    server,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
