// Header fields as the core writes them: lines of `name: value`.

/**
 * @param {string} lines
 * @param {(name: string, value: string) => void} each
 */
function walk(lines, each) {
  for (let at = 0; at < lines.length; ) {
    const end = lines.indexOf('\n', at);
    const colon = lines.indexOf(': ', at);
    each(lines.slice(at, colon), lines.slice(colon + 2, end));
    at = end + 1;
  }
}

/**
 * Appends each line to the fields that are there. A Headers object that is filled one by one costs the platform less
 * than pairs or a record that it has to take apart.
 *
 * @param {Headers} headers
 * @param {string} lines
 */
export function appendFields(headers, lines) {
  walk(lines, (name, value) => headers.append(name, value));
}

/** Fields that are lists, to which ours are members like the origin's own (draft-ietf-httpapi-ratelimit-headers-10). */
const LISTS = ['RateLimit', 'RateLimit-Policy'];

/**
 * Puts each line among an origin's fields: behind its members where the field is a list, in its place where it holds
 * one number, since `5000, 60` is none.
 *
 * @param {Headers} headers
 * @param {string} lines
 */
export function mergeFields(headers, lines) {
  walk(lines, (name, value) => {
    if (LISTS.includes(name)) headers.append(name, value);
    else headers.set(name, value);
  });
}

/** What every script may read anyway (Fetch standard, "CORS-safelisted response-header name"), and CORS's own. */
const READABLE = /^(?:content-type|cache-control|vary|access-control-.*)$/i;

/**
 * Lets a script of another origin read these fields.
 *
 * @param {Headers} headers of the answer
 * @param {string} lines the fields, and others that need no leave
 */
export function exposeFields(headers, lines) {
  const names = Array.from(lines.matchAll(/^([^:\n]+): /gm), ([, name]) => name).filter((name) => !READABLE.test(name));
  if (names.length > 0) headers.append('access-control-expose-headers', [...new Set(names)].join(', '));
}

/**
 * These fields as lines, as far as they are there.
 *
 * @param {Headers} headers
 * @param {string[]} names
 */
export function namedFields(headers, names) {
  const found = names.filter((name) => headers.has(name));
  return found.map((name) => `${name}: ${headers.get(name)}\n`).join('');
}
