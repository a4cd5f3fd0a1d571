// What the core may ask of the platform in the middle of a call: only this, and only for that call.

/**
 * @param {Request} request
 * @param {string} name
 * @returns {string | undefined}
 */
export function header(request, name) {
  return request.headers.get(name) ?? undefined;
}

/**
 * @param {Request} request
 * @returns {string | undefined}
 */
export function country(request) {
  return text(request.cf?.country);
}

/**
 * @param {Request} request
 * @returns {string | undefined}
 */
export function asn(request) {
  return text(request.cf?.asn);
}

/**
 * Whether the request comes without a body, whatever its headers say, and asks for no other protocol.
 *
 * @param {Request} request
 */
export function isBare(request) {
  return request.body === null && !request.headers.has('upgrade');
}

/** @param {string} line */
export function log(line) {
  console.log(line);
}

/** @param {unknown} value */
function text(value) {
  return value === undefined || value === null ? undefined : String(value);
}
