// Forwarding: the client's request to the origin and the origin's answer back, bodies as streams.

import { appendFields } from './fields.js';

const VIA = '1.1 sluicegate';

/** Hop-by-hop fields (RFC 9110 section 7.6.1); `upgrade` stays where the request asks for a WebSocket. */
const HOP_BY_HOP = ['keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'];

/**
 * @typedef {object} Forward
 * @property {string} origin `http(s)://…` without a trailing slash, or `binding:NAME`
 * @property {number} timeoutMs for the response head; 0 waits as long as the platform does
 * @property {string} fields to append to the answer, a line each
 */

/**
 * @param {Request} request
 * @param {Forward} forward
 * @param {Record<string, unknown>} env
 * @returns {Promise<Response | 502 | 504>} the origin's answer, or the status of its failure
 */
export async function toOrigin(request, forward, env) {
  const abort = new AbortController();
  let late = false;
  const timer = forward.timeoutMs
    ? setTimeout(() => {
        late = true;
        abort.abort();
      }, forward.timeoutMs)
    : null;
  try {
    return finish(await send(request, forward.origin, env, timer === null ? null : abort.signal), forward.fields);
  } catch {
    return late ? 504 : 502;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * @param {Request} request
 * @param {string} origin
 * @param {Record<string, unknown>} env
 * @param {AbortSignal | null} signal
 * @returns {Promise<Response>}
 */
function send(request, origin, env, signal) {
  // The core has refused a URL without a plain authority, so the first slash behind it begins the path.
  const asked = request.url;
  const host = asked.indexOf('://') + 3;
  const path = asked.indexOf('/', host);
  const [authority, target] = path < 0 ? [asked.slice(host), '/'] : [asked.slice(host, path), asked.slice(path)];
  const headers = new Headers(request.headers);
  stripHopByHop(headers);
  headers.append('via', VIA);
  headers.set('x-forwarded-host', authority);
  headers.set('x-forwarded-proto', asked.slice(0, host - 3));
  const bound = origin.startsWith('binding:');
  const url = bound ? asked : origin + (hasPath(origin) ? withoutDots(target) : target);
  const { method, body } = request;
  // fetch() refuses a body of GET and HEAD, but not in a request that came with one.
  const unusual = body !== null && (method === 'GET' || method === 'HEAD');
  if (url !== asked && !unusual) return fetch(url, { method, headers, body, redirect: 'manual', signal });
  // A URL that is passed as text is taken apart and written anew; one that stays in its request keeps its bytes.
  const kept = new Request(request, { headers, redirect: 'manual', signal });
  if (!bound) return fetch(url === asked ? kept : new Request(url, kept));
  const service = /** @type {Fetcher | undefined} */ (env[origin.slice('binding:'.length)]);
  if (!service) throw new Error('no such service binding');
  return service.fetch(kept);
}

/** @param {string} origin `http(s)://…` */
function hasPath(origin) {
  return origin.indexOf('/', 'https://'.length) > 0;
}

/**
 * Behind a base path dot segments would lead out of it: they are resolved without it.
 *
 * @param {string} target
 */
function withoutDots(target) {
  const root = 'http://x';
  return new URL(root + target).href.slice(root.length);
}

/**
 * The origin's answer with our fields appended. A switch to another protocol is passed as it is.
 *
 * @param {Response} response
 * @param {string} fields
 */
function finish(response, fields) {
  if (response.status === 101 || response.webSocket) return response;
  const answer = new Response(response.body, response);
  stripHopByHop(answer.headers);
  appendFields(answer.headers, fields);
  return answer;
}

/** @param {Headers} headers */
function stripHopByHop(headers) {
  const named = headers.get('connection');
  if (named !== null) {
    const upgrade = headers.get('upgrade')?.toLowerCase() === 'websocket';
    for (const name of named.split(',')) {
      const field = name.trim().toLowerCase();
      if (field && !(upgrade && field === 'upgrade')) headers.delete(field);
    }
    headers.delete('connection');
  }
  for (const name of HOP_BY_HOP) headers.delete(name);
}
