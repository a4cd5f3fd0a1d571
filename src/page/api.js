// The admin API, asked with the token that this tab keeps.

const ROOT = '/.sluicegate/v1/';
const KEY = 'sluicegate-admin-token';

/** Longest wait for an answer, in ms. */
const DEADLINE_MS = 10_000;

/** An answer that is no success, or none at all. */
export class Refused extends Error {
  /**
   * @param {number} status 0 where nothing answered
   * @param {string} detail
   */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** A tab without storage asks again after each load. */
let token = stored();

function stored() {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

export const hasToken = () => token !== '';

/** @param {string} text '' forgets it */
export function useToken(text) {
  token = text;
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Kept by this page alone.
  }
}

/**
 * @param {string} path under the API's root
 * @param {string} [method]
 * @param {unknown} [body] sent as JSON
 * @returns {Promise<any>} the answer's JSON; anything but a success is thrown as {@link Refused}
 */
export async function ask(path, method = 'GET', body = undefined) {
  let response;
  let answer;
  try {
    response = await fetch(ROOT + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      cache: 'no-store',
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    answer = await response.json();
  } catch {
    throw new Refused(response?.status ?? 0, 'the gateway did not answer, or not in JSON');
  }
  if (!response.ok) throw new Refused(response.status, String(answer.detail ?? response.statusText));
  return answer;
}

/**
 * The path of a subject: its parts, each encoded, `-` for one that holds nothing.
 *
 * @param {string} name of the limit
 * @param {string[]} parts
 */
export function subjectPath(name, parts) {
  const encoded = parts.map((part) => (part === '-' ? '%2D' : encodeURIComponent(part.toWellFormed()) || '-'));
  const subject = encoded.join(',');
  if (subject === '.' || subject === '..') throw new Refused(400, 'no URL can carry a subject of dots alone');
  return `${encodeURIComponent(name)}/${subject}`;
}
