// A client that sends what it is told, byte for byte: no normalised paths, no followed redirects, no cookies.
import { Agent, request } from 'node:http';

/**
 * @typedef {object} Sent
 * @property {string} [method]
 * @property {Record<string, string | string[]>} [headers]
 * @property {string} [ip] the client's address, as Cloudflare would say it; '' sends none
 * @property {string | Uint8Array} [body]
 * @property {Agent} [agent]
 */

/**
 * @typedef {object} Reply
 * @property {number} status
 * @property {import('node:http').IncomingHttpHeaders} headers
 * @property {string} text
 * @property {() => any} json the body, parsed
 */

const shared = new Agent({ keepAlive: true, maxSockets: 128 });

/**
 * @param {string} url of the server, without a path
 * @param {string} path with its query, sent as it is
 * @param {Sent} [options]
 * @returns {Promise<Reply>}
 */
export function send(url, path, { method = 'GET', headers = {}, ip = '192.0.2.1', body, agent = shared } = {}) {
  const { hostname, port } = new URL(url);
  /** @type {Record<string, string | number>} */
  const own = ip === '' ? {} : { 'cf-connecting-ip': ip };
  // Node leaves the body of some methods out unless its length is said.
  if (body !== undefined) own['content-length'] = Buffer.byteLength(body);
  return new Promise((resolve, reject) => {
    const outgoing = request({ hostname, port, path, method, headers: { ...own, ...headers }, agent }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('error', reject);
      response.on('end', () => {
        const status = response.statusCode ?? 0;
        resolve({ status, headers: response.headers, text, json: () => JSON.parse(text) });
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/**
 * The same request many times, a bounded number at once.
 *
 * @param {number} count
 * @param {(index: number) => Promise<Reply>} one
 * @param {number} [atOnce]
 */
export async function many(count, one, atOnce = count) {
  /** @type {Reply[]} */
  const replies = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const index = next++;
      replies[index] = await one(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, worker));
  return replies;
}

/**
 * @param {Reply[]} replies
 * @returns {Record<number, number>} how many replies had each status
 */
export function statuses(replies) {
  /** @type {Record<number, number>} */
  const counts = {};
  for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/**
 * @param {Reply[]} replies
 * @returns {Record<string, number>} how many replies each tier decided
 */
export function tiers(replies) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { headers } of replies) {
    const tier = String(headers['sluicegate-tier']);
    counts[tier] = (counts[tier] ?? 0) + 1;
  }
  return counts;
}
