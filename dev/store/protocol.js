// Upstash's REST protocol, without the I/O: requests to commands, Redis replies to bodies.
// https://upstash.com/docs/redis/features/restapi is the reference; where it says nothing (texts of refusals), the
// texts are those the service is seen to send.

/** @typedef {'command' | 'path' | 'pipeline' | 'multi-exec'} Form */
/** @typedef {string | Buffer} Argument */
/** @typedef {{ name: string, args: Argument[] }} Command name is upper case, args starts with the name as sent */
/** @typedef {{ form: Form, commands: Command[] }} Parsed */

/**
 * A reply as read from Redis: integers as their decimal text, so that 64-bit ones stay exact, and strings as bytes.
 * @typedef {null | string | Buffer | Error | Reply[]} Reply
 */

/** @typedef {{ status: number, body: string }} Answer */

/** A request that is refused before any command runs; the message is the client's. */
export class Refusal extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const UNAUTHORIZED = 'WRONGPASS invalid or missing auth token';

/** @param {number} limit bytes @param {number} actual bytes */
export function tooLarge(limit, actual) {
  const details = 'https://upstash.com/docs/redis/troubleshooting/max_request_size_exceeded';
  const text = `ERR max request size exceeded. Limit: ${limit} bytes, Actual: ${actual} bytes. See ${details} for details`;
  return new Refusal(413, text);
}

/**
 * The token of a request: `_token` wins over the header, whose `Bearer` may be missing.
 * @param {string} url
 * @param {string | undefined} authorization
 */
export function tokenOf(url, authorization) {
  const query = url.indexOf('?');
  if (query !== -1) {
    for (const [key, value] of queryPairs(url.slice(query + 1))) if (key === '_token') return value;
  }
  return authorization?.replace(/^bearer\s+/i, '');
}

/**
 * @param {string} url path and query as sent
 * @param {Buffer} body
 * @returns {Parsed}
 */
export function parseRequest(url, body) {
  const query = url.indexOf('?');
  const path = query === -1 ? url : url.slice(0, query);
  switch (path) {
    case '/':
    case '':
      return { form: 'command', commands: [commandFrom(parseArray(body), 'ERR empty command')] };
    case '/pipeline':
    case '/multi-exec': {
      const rows = parseArray(body);
      if (rows.length === 0) throw new Refusal(400, 'ERR empty pipeline request');
      const commands = rows.map((row) => commandFrom(row, 'ERR empty pipeline command'));
      return { form: path === '/pipeline' ? 'pipeline' : 'multi-exec', commands };
    }
    default:
      return { form: 'path', commands: [pathCommand(path, query === -1 ? '' : url.slice(query + 1), body)] };
  }
}

/** @param {Buffer} body @returns {unknown[]} */
function parseArray(body) {
  if (body.length === 0) throw new Refusal(400, 'EOF');
  let value;
  try {
    value = JSON.parse(body.toString());
  } catch {
    throw new Refusal(400, 'ERR failed to parse command');
  }
  if (!Array.isArray(value)) throw new Refusal(400, 'expected JSON array');
  return value;
}

/** @param {unknown} row @param {string} whenEmpty @returns {Command} */
function commandFrom(row, whenEmpty) {
  if (!Array.isArray(row)) throw new Refusal(400, 'expected JSON array');
  if (row.length === 0) throw new Refusal(400, whenEmpty);
  const args = row.map(argumentFrom);
  return { name: args[0].toUpperCase(), args };
}

/** @param {unknown} value */
function argumentFrom(value) {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
    case 'boolean':
      return String(value);
    default:
      if (value === null) throw new Refusal(400, 'ERR null args are not supported');
      throw new Refusal(400, `ERR unsupported arg type: "${Array.isArray(value) ? '[' : '{'}": json.Delim`);
  }
}

/**
 * `/set/foo?EX=100` with body `bar` is SET foo bar EX 100: the body follows the path, the query follows both.
 * @param {string} path @param {string} query @param {Buffer} body @returns {Command}
 */
function pathCommand(path, query, body) {
  /** @type {Argument[]} */
  const args = path.slice(1).split('/').map(percentDecode);
  const name = String(args[0]).toUpperCase();
  if (name === '') throw new Refusal(400, 'ERR empty command');
  if (body.length > 0) args.push(body);
  for (const [key, value] of queryPairs(query)) {
    if (key === '_token') continue;
    args.push(key);
    if (value !== undefined) args.push(value);
  }
  return { name, args };
}

/** @param {string} query @returns {[string, string | undefined][]} a pair without `=` has no value */
function queryPairs(query) {
  if (query === '') return [];
  return query.split('&').map((pair) => {
    const equals = pair.indexOf('=');
    const text = (/** @type {string} */ part) => percentDecode(part.replaceAll('+', ' '));
    return equals === -1 ? [text(pair), undefined] : [text(pair.slice(0, equals)), text(pair.slice(equals + 1))];
  });
}

/** @param {string} text */
function percentDecode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Refusal(400, 'ERR failed to parse command');
  }
}

/** @param {string} message */
export const errorBody = (message) => `{"error":${JSON.stringify(message)}}`;

/** @param {Reply} reply @param {boolean} base64 */
export function replyBody(reply, base64) {
  if (reply instanceof Error) return errorBody(reply.message);
  // Clients read a bare OK as such in either encoding; every other string is encoded, status replies too.
  const plain = !base64 || (Buffer.isBuffer(reply) && reply.length === 2 && reply.toString('latin1') === 'OK');
  return `{"result":${encode(reply, !plain)}}`;
}

/** @param {Reply[]} replies @param {boolean} base64 */
export const batchBody = (replies, base64) => `[${replies.map((reply) => replyBody(reply, base64)).join(',')}]`;

/** @param {Reply} reply @param {boolean} base64 @returns {string} JSON */
function encode(reply, base64) {
  if (reply === null) return 'null';
  if (typeof reply === 'string') return reply;
  // Bytes that are not UTF-8 become U+FFFD, as the service has it; base64 keeps them.
  if (Buffer.isBuffer(reply)) return base64 ? `"${reply.toString('base64')}"` : JSON.stringify(reply.toString());
  if (Array.isArray(reply)) return `[${reply.map((item) => encode(item, base64)).join(',')}]`;
  return JSON.stringify(reply.message);
}
