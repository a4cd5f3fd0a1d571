// Calls of the admin API, every answer held against the document.
import { send } from '../support/client.js';
import { ADMIN_TOKEN } from '../support/world.js';
import { holds, operationOf } from './openapi.js';

export const ROOT = '/.sluicegate/v1/';
export const AUTHORIZED = { authorization: `Bearer ${ADMIN_TOKEN}` };

/**
 * @param {import('../support/world.js').Edge} edge
 * @param {string} method
 * @param {string} path behind the API's root
 * @param {unknown} [body] text as it is, anything else as JSON
 * @param {import('../support/client.js').Sent} [options]
 */
export async function call(edge, method, path, body, options = {}) {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  const whole = ROOT + path;
  const reply = await send(edge.url, whole, { method, body: text, headers: AUTHORIZED, ip: '', ...options });
  if (operationOf(method, whole)) holds(method, whole, reply);
  return reply;
}

/** A subject as a path names it. @param {(string | null)[]} parts null holds nothing */
export const subjectOf = (...parts) =>
  parts.map((part) => (part === null ? '-' : part === '-' ? '%2D' : encodeURIComponent(part))).join(',');

/**
 * Everything in the store: each key with its bytes.
 *
 * @param {{ client: { keys(pattern: string): Promise<string[]>, sendCommand(args: string[], options?: any): Promise<any> } }} world
 */
export async function everything(world) {
  const keys = (await world.client.keys('*')).sort();
  /** @type {Record<string, string>} */
  const dumps = {};
  for (const key of keys) dumps[key] = (await world.client.sendCommand(['GETRANGE', key, '0', '-1'])).toString();
  return dumps;
}
