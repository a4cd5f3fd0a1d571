// A store that keeps each request as its bytes came in, and answers what it is told.
import { once } from 'node:events';
import { createServer } from 'node:http';

/**
 * @typedef {object} Recorded
 * @property {string} method
 * @property {string} path
 * @property {import('node:http').IncomingHttpHeaders} headers
 * @property {string} body
 */

/** A decision over one limit of 3: passes, 2 left. */
const PASSES = { status: 200, body: '{"result":[1,3,2,1000,0]}' };

export async function startRecorder() {
  /** @type {Recorded[]} */
  const requests = [];
  const recorder = {
    url: '',
    requests,
    answer: PASSES,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    requests.push({ method: String(request.method), path: String(request.url), headers: request.headers, body });
    response.writeHead(recorder.answer.status, { 'content-type': 'application/json' });
    response.end(recorder.answer.body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  recorder.url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  return recorder;
}
