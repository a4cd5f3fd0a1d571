// A KV namespace as workerd asks for one: a server that holds the key `policy` and misbehaves when told to.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, beforeEach } from 'node:test';
import { until } from './world.js';

export function useNamespace() {
  const namespace = {
    /** For `options.namespaces` of a gateway. */
    address: '',
    /** @type {string | undefined} */
    policy: undefined,
    /** @type {'well' | 'fails' | 'hangs'} */
    is: 'well',
    /** Paths asked for, oldest first. */
    asked: /** @type {string[]} */ ([]),
    /** Reads under way, and the most there were at once. */
    underWay: 0,
    most: 0,

    /** @param {unknown} policy */
    put(policy) {
      namespace.policy = typeof policy === 'string' ? policy : JSON.stringify(policy);
    },

    /**
     * Waits until a gateway has read what is there now. Only requests make it read.
     *
     * @param {() => Promise<unknown>} request
     * @param {number} [reads]
     */
    async read(request, reads = 1) {
      const enough = namespace.asked.length + reads;
      await until(async () => {
        await request();
        return namespace.asked.length >= enough;
      }, 'the namespace to be read');
    },
  };
  const server = createServer((request, response) => {
    namespace.asked.push(String(request.url));
    namespace.underWay += 1;
    namespace.most = Math.max(namespace.most, namespace.underWay);
    response.on('close', () => {
      namespace.underWay -= 1;
    });
    if (namespace.is === 'hangs') return;
    const status = namespace.is === 'fails' ? 503 : namespace.policy === undefined ? 404 : 200;
    response.writeHead(status, { 'content-type': 'application/octet-stream' });
    response.end(status === 200 ? namespace.policy : 'private-namespace-text');
  });
  const listening = (async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    namespace.address = `127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  })();
  beforeEach(async () => {
    await listening;
    Object.assign(namespace, { policy: undefined, is: 'well', most: 0 });
    namespace.asked.length = 0;
  });
  after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return namespace;
}
