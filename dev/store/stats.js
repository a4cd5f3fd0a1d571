// What reached the endpoint, for tests to read: counts, and the last requests with the headers they carried.

const RECENT = 200;

/**
 * One request, as it was received and before anything was executed.
 * @typedef {object} Received
 * @property {number} at ms since the Unix epoch
 * @property {string} method
 * @property {string} path with its query, as sent
 * @property {import('node:http').IncomingHttpHeaders} headers
 * @property {import('./protocol.js').Form} form
 * @property {string[][]} commands every command of the request, one for the forms that carry one
 */

/**
 * @typedef {object} Stats
 * @property {number} requests HTTP requests received, refused ones included
 * @property {Record<string, number>} commands commands received by upper-case name, whether or not a fault kept them
 *   from running
 * @property {() => Received[]} recent the last 200 requests that held a command, oldest first
 * @property {() => void} reset
 */

/** @returns {Stats & { record: (received: Received, names: string[]) => void }} */
export function createStats() {
  /** @type {Received[]} */
  let ring = [];
  let next = 0;

  const stats = {
    requests: 0,
    /** @type {Record<string, number>} */
    commands: Object.create(null),
    recent: () => [...ring.slice(next), ...ring.slice(0, next)],
    reset() {
      stats.requests = 0;
      stats.commands = Object.create(null);
      ring = [];
      next = 0;
    },
    /** @param {Received} received @param {string[]} names */
    record(received, names) {
      for (const name of names) stats.commands[name] = (stats.commands[name] ?? 0) + 1;
      ring[next] = received;
      next = (next + 1) % RECENT;
    },
  };
  return stats;
}
