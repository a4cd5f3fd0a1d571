// Forwarding: the client's request to the origin and the origin's answer back, bodies as streams.

import { exposeFields, mergeFields } from './fields.js';

const VIA = '1.1 sluicegate';

/** Hop-by-hop fields (RFC 9110 section 7.6.1); `upgrade` stays where the request asks for a WebSocket. */
const HOP_BY_HOP = ['keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'];

/** Names of our own begin with this. */
const OWN = 'sluicegate-';

/** Who decided; nobody but us says it. */
const TIER = 'sluicegate-tier';

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
    const response = await send(request, forward.origin, env, timer === null ? null : abort.signal);
    return finish(response, forward.fields, request);
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
  const path = request.url.indexOf('/', request.url.indexOf('://') + 3);
  const scheme = request.url.slice(0, request.url.indexOf(':'));
  const target = path < 0 ? '/' : request.url.slice(path);
  const headers = new Headers(request.headers);
  stripHopByHop(headers);
  stripOwn(headers, request);
  headers.append('via', VIA);
  headers.set('x-forwarded-host', request.headers.get('host') ?? request.url.slice(scheme.length + 3, path));
  headers.set('x-forwarded-proto', scheme);
  if (!origin.startsWith('binding:')) {
    const init = {
      method: request.method,
      headers,
      body: request.body,
      redirect: /** @type {const} */ ('manual'),
      signal,
    };
    return fetch(origin + target, init);
  }
  const service = /** @type {Fetcher | undefined} */ (env[origin.slice('binding:'.length)]);
  if (!service) throw new Error('no such service binding');
  // A URL that is passed as text is taken apart and written anew; one that stays in its request keeps its bytes.
  return service.fetch(new Request(request, { headers, redirect: 'manual', signal }));
}

/**
 * The origin's answer with our fields appended. A switch to another protocol is passed as it is.
 *
 * @param {Response} response
 * @param {string} fields
 * @param {Request} request
 */
function finish(response, fields, request) {
  if (response.status === 101 || response.webSocket) return response;
  const answer = new Response(response.body, response);
  stripHopByHop(answer.headers);
  answer.headers.delete(TIER);
  mergeFields(answer.headers, fields);
  // Where the origin opens its answer to scripts, it opens ours with it.
  if (fields && answer.headers.has('access-control-allow-origin') && request.headers.has('origin')) {
    exposeFields(answer.headers, `${fields}Retry-After: \n`);
  }
  return answer;
}

/**
 * Takes away what only we may say: the origin believes it of us.
 *
 * @param {Headers} headers
 * @param {Request} request whose headers they were
 */
function stripOwn(headers, request) {
  for (const name of request.headers.keys()) if (name.startsWith(OWN)) headers.delete(name);
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
