// Forwarding: the client's request to the origin and the origin's answer back, bodies as streams.

import { exposeFields, mergeFields } from './fields.js';
import { deliver } from './hold.js';

const VIA = '1.1 sluicegate';

/** How bodies come: as they are encoded, or unpacked if JavaScript reads them. */
const [MANUAL, AUTOMATIC] = /** @type {const} */ (['manual', 'automatic']);

/** Hop-by-hop fields (RFC 9110 section 7.6.1); `upgrade` stays where the request asks for a WebSocket. */
const HOP_BY_HOP = ['keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'];

/** A field's name (RFC 9110 section 5.6.2). The platform throws at any other. */
const NAME = /^[\w!#$%&'*+.^`|~-]+$/;

/** Names of our own begin with this. */
const OWN = 'sluicegate-';

/** What the origin settles a charge by. */
const CHARGE = 'sluicegate-charge';

/** Who decided; nobody but us says it. */
const TIER = 'sluicegate-tier';

/**
 * @typedef {object} Where
 * @property {string} origin `http(s)://…` without a trailing slash, or `binding:NAME`
 * @property {number} timeoutMs for the response head; 0 waits as long as the platform does
 * @property {string} charge what the origin may settle later; '' for none
 */

/** @typedef {Where & {fields: string}} Forward the fields are to append to the answer, a line each */

/**
 * @param {Request} request
 * @param {Forward} forward
 * @param {Record<string, unknown>} env
 * @param {((free: boolean) => void) | undefined} over of a request that holds slots: called once, when it runs no more
 * @returns {Promise<Response | 502 | 504>} the origin's answer, or the status of its failure
 */
export function toOrigin(request, forward, env, over) {
  return asked(request, forward, env, over, undefined, (response) => finish(response, forward.fields, request, over));
}

/**
 * Asks the origin.
 *
 * @param {Request} request
 * @param {Where} forward
 * @param {Record<string, unknown>} env
 * @param {((free: boolean) => void) | undefined} over
 * @param {AbortController | undefined} given where somebody else may end it
 * @param {(response: Response) => Response} then what is made of the answer
 * @returns {Promise<Response | 502 | 504>} never rejects
 */
export async function asked(request, forward, env, over, given, then) {
  const abort = given ?? new AbortController();
  let late = false;
  const timer = forward.timeoutMs
    ? setTimeout(() => {
        late = true;
        abort.abort();
      }, forward.timeoutMs)
    : null;
  try {
    let signal = timer === null && !given ? null : abort.signal;
    // While slots are held, something waits for the end of the request, so the platform does not end it by itself.
    if (over) signal = AbortSignal.any([abort.signal, request.signal]);
    const response = await send(request, forward, env, signal, over);
    return then(response);
  } catch {
    over?.(true);
    return late ? 504 : 502;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * @param {Request} request
 * @param {Where} forward
 * @param {Record<string, unknown>} env
 * @param {AbortSignal | null} signal
 * @param {unknown} held whether the answer is delivered by a pipe of ours, and so comes as it is encoded
 * @returns {Promise<Response>}
 */
function send(request, { origin, charge }, env, signal, held) {
  // The core has refused a URL without a plain authority, so the first slash behind it begins the path.
  const asked = request.url;
  const host = asked.indexOf('://') + 3;
  const path = asked.indexOf('/', host);
  const [authority, target] = path < 0 ? [asked.slice(host), '/'] : [asked.slice(host, path), asked.slice(path)];
  const headers = new Headers(request.headers);
  stripHopByHop(headers);
  stripOwn(headers, request);
  if (charge !== '') headers.set(CHARGE, charge);
  headers.append('via', VIA);
  headers.set('x-forwarded-host', authority);
  headers.set('x-forwarded-proto', asked.slice(0, host - 3));
  const bound = origin.startsWith('binding:');
  const url = bound ? asked : origin + (hasPath(origin) ? withoutDots(target) : target);
  const { method, body } = request;
  const encodeResponseBody = held ? MANUAL : AUTOMATIC;
  // fetch() refuses a body of GET and HEAD, but not in a request that came with one.
  const unusual = body !== null && (method === 'GET' || method === 'HEAD');
  if (url !== asked && !unusual) {
    return fetch(url, { method, headers, body, redirect: 'manual', signal, encodeResponseBody });
  }
  // A URL that is passed as text is taken apart and written anew; one that stays in its request keeps its bytes.
  const kept = new Request(request, { headers, redirect: 'manual', signal });
  if (!bound) return fetch(url === asked ? kept : new Request(url, kept), { encodeResponseBody });
  const service = /** @type {Fetcher | undefined} */ (env[origin.slice('binding:'.length)]);
  if (!service) throw new Error('no such service binding');
  return held ? service.fetch(kept, { encodeResponseBody }) : service.fetch(kept);
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
 * @param {Request} request
 * @param {((free: boolean) => void) | undefined} over
 */
export function finish(response, fields, request, over) {
  if (response.status === 101 || response.webSocket) {
    // Nothing says when a socket closes that nobody here reads from.
    over?.(false);
    return response;
  }
  const answer = over ? deliver(response, over) : new Response(response.body, response);
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
export function stripOwn(headers, request) {
  for (const name of request.headers.keys()) if (name.startsWith(OWN)) headers.delete(name);
}

/** @param {Headers} headers */
export function stripHopByHop(headers) {
  const named = headers.get('connection');
  if (named !== null) {
    const upgrade = headers.get('upgrade')?.toLowerCase() === 'websocket';
    for (const name of named.split(',')) {
      const field = name.trim().toLowerCase();
      if (NAME.test(field) && !(upgrade && field === 'upgrade')) headers.delete(field);
    }
    headers.delete('connection');
  }
  for (const name of HOP_BY_HOP) headers.delete(name);
}
