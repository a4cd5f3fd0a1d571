// A store that answers each call when a test says so, and what it says: the order of events is then the test's own.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, beforeEach } from 'node:test';
import { until } from './world.js';

/** Replies to a call over one limit of 3. */
export const PASSES = '{"result":[1,3,2,1000,0]}';
export const REFUSES = '{"result":[0,3,0,60000,60000]}';
export const NOSCRIPT = '{"error":"NOSCRIPT No matching script. Please use EVAL."}';

/**
 * @typedef {object} Held a call that waits for its reply
 * @property {string[]} command
 * @property {(body: string, status?: number) => void} reply
 * @property {() => void} reset breaks its connection
 * @property {import('node:http').ServerResponse} response
 */

/** For a whole test file; before each test nothing is held. */
export function useHoldingStore() {
  const store = {
    url: '',
    /** @type {Held[]} calls so far, oldest first */
    calls: [],
    /** Waits for the call of this number, from 1. @param {number} number @returns {Promise<Held>} */
    async call(number) {
      await until(() => store.calls.length >= number, `call ${number} to the store`);
      return store.calls[number - 1];
    },
  };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    store.calls.push({
      command: JSON.parse(body),
      reply: (text, status = text.startsWith('{"error"') ? 400 : 200) => response.writeHead(status).end(text),
      reset: () => response.socket?.resetAndDestroy(),
      response,
    });
  });
  before(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    store.url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  });
  beforeEach(() => {
    store.calls.length = 0;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return store;
}
