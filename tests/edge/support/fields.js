// Rate limit fields as a client's structured field parser reads them.
import assert from 'node:assert/strict';
import { parseList } from 'structured-headers';

/** @typedef {import('./client.js').Reply} Reply */

/**
 * @param {unknown} header
 * @returns {Record<string, any>} each member's parameters by its name, in the order sent
 */
function members(header) {
  assert.equal(typeof header, 'string', 'the field is not there');
  return Object.fromEntries(
    parseList(String(header)).map(([name, parameters]) => {
      assert.equal(typeof name, 'string', 'a name is a string, no token');
      return [name, Object.fromEntries(parameters)];
    }),
  );
}

/** `RateLimit`, e.g. `{ a: { r: 2, t: 60 } }`. @param {Reply} reply */
export const rateLimit = ({ headers }) => members(headers.ratelimit);

/** `RateLimit-Policy`, e.g. `{ a: { q: 3, w: 60 } }`. @param {Reply} reply */
export const rateLimitPolicy = ({ headers }) => members(headers['ratelimit-policy']);

/** What is left of a limit. @param {Reply} reply @param {string} name */
export const left = (reply, name) => rateLimit(reply)[name]?.r;

/**
 * A problem document of that status, as SPEC section 7 lays it out.
 *
 * @param {Reply} reply
 * @param {number} status
 * @returns {any} the document
 */
export function problem(reply, status) {
  assert.equal(reply.status, status, reply.text);
  assert.equal(reply.headers['content-type'], 'application/problem+json');
  assert.equal(reply.headers['cache-control'], 'no-store');
  assert.equal(reply.headers['content-length'], String(Buffer.byteLength(reply.text)));
  assert.equal(reply.headers['transfer-encoding'], undefined);
  const document = reply.json();
  assert.equal(document.status, status);
  for (const field of ['type', 'title', 'detail']) assert.equal(typeof document[field], 'string', field);
  return document;
}

const PROBLEM_TYPES = 'https://iana.org/assignments/http-problem-types#';
export const QUOTA_EXCEEDED = `${PROBLEM_TYPES}quota-exceeded`;
export const REDUCED_CAPACITY = `${PROBLEM_TYPES}temporary-reduced-capacity`;
