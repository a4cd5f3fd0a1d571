// The demo origin: says what it was asked. It stands for the API behind the gateway.

import { createServer } from 'node:http';

/**
 * @param {number} port
 * @param {number} [delayMs] how long it takes to answer
 * @returns {Promise<import('node:http').Server>}
 */
export function startOrigin(port, delayMs = 0) {
  const server = createServer((request, response) => {
    const body = `${JSON.stringify({ origin: 'demo', method: request.method, path: request.url })}\n`;
    const answer = () => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    if (delayMs > 0) setTimeout(answer, delayMs);
    else answer();
    request.resume();
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
