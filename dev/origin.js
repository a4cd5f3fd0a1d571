// The demo origin: says what it was asked. It stands for the API behind the gateway.

import { createServer } from 'node:http';

/**
 * @param {number} port
 * @returns {Promise<import('node:http').Server>}
 */
export function startOrigin(port) {
  const server = createServer((request, response) => {
    const body = `${JSON.stringify({ origin: 'demo', method: request.method, path: request.url })}\n`;
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(request.method === 'HEAD' ? undefined : body);
    request.resume();
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
