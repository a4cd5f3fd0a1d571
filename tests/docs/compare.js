// Whether what is printed is what a page shows. What is another at each run is compared by its shape.
import assert from 'node:assert/strict';

/** Members whose values are moments, durations, digests, or drawn at random. */
const OF_ITS_OWN =
  /^(reset_ms|retry_after|kept_until(_ms)?|expires_at_ms|fence|isolate|digest|subject|uptime_ms|window|window_ms|p50|p99|bytes|now_ms)$/;

/** @param {unknown} value @returns {unknown} its kind, its length, where its letters and digits are */
function shape(value) {
  if (typeof value === 'number') return 'a number';
  if (typeof value === 'string') return value.replaceAll(/[\w:.-]{8,}/g, (run) => `<${run.length}>`);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shape(field)]));
}

/** Moments within texts: seconds to wait, and a window that was chosen so that it does not end. @param {string} text */
const words = (text) => text.replaceAll(/\bin \d+ s\b/g, 'in T s').replaceAll(/ per \d+[sm]\b/g, ' per W');

/**
 * @param {any} value
 * @param {RegExp | undefined} own names of more members of its own
 * @param {string} [name]
 * @returns {any} the value, with what is of its own as its shape
 */
function common(value, own, name = '') {
  if (OF_ITS_OWN.test(name) || own?.test(name)) return shape(value);
  if (typeof value === 'string') return words(value);
  if (value === null || typeof value !== 'object') return value;
  if (!Array.isArray(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, common(field, own, key)]));
  }
  // A row of counts over time: which of its steps had them depends on when it began.
  const counts = value.length > 0 && value.every((one) => typeof one === 'number');
  if (counts) return { counts: value.length, sum: value.reduce((sum, one) => sum + one, 0) };
  return value.map((one) => common(one, own));
}

/** @param {string} line @param {RegExp} [own] */
function line(line, own) {
  if (line.startsWith('{')) return JSON.stringify(common(JSON.parse(line), own));
  return line
    .replace(/^(Date|Retry-After|RateLimit-Reset|X-RateLimit-Reset): .*\d.*/i, '$1: a moment')
    .replace(/^Content-Length: \d+/i, 'Content-Length: N')
    .replaceAll(/\bt=\d+/g, 't=T')
    .replaceAll(/\bw=\d\d+/g, 'w=W')
    .replaceAll(/\/tasks\/[\w-]+/g, '/tasks/ID');
}

/**
 * Line by line and in order; `…` alone on a line stands for lines that are not shown.
 *
 * @param {string} printed
 * @param {string} shown
 * @param {RegExp} [own] names of more members of JSON that are their own
 */
export function same(printed, shown, own) {
  const lines = (/** @type {string} */ text) =>
    text
      .trimEnd()
      .split('\n')
      .map((one) => line(one.trimEnd(), own));
  const is = lines(printed);
  let at = 0;
  let gap = false;
  for (const expected of lines(shown)) {
    if (expected === '…') {
      gap = true;
      continue;
    }
    if (gap) at = Math.max(is.indexOf(expected, at), at);
    assert.equal(is[at], expected);
    at += 1;
    gap = false;
  }
  assert.deepEqual(gap ? [] : is.slice(at), [], 'more is printed than shown');
}

/** @param {string} text of an answer: status line, fields, body */
function answer(text) {
  const [head, ...body] = text.replaceAll('\r', '').split('\n\n');
  const [status, ...fields] = head.trim().split('\n');
  const read = fields.map((field) => {
    const [name, value] = line(field).split(/: (.*)/s);
    return /** @type {[string, string]} */ ([name.toLowerCase(), value]);
  });
  return { status, fields: Object.fromEntries(read), body: body.join('\n\n').trim() };
}

/**
 * An answer with its head. The fields' order, and the case of their names, mean nothing.
 *
 * @param {string} printed
 * @param {string} shown
 * @param {{ all: boolean, own?: RegExp }} options whether every field is shown; as for {@link same}
 */
export function sameAnswer(printed, shown, { all, own }) {
  const [is, expected] = [answer(printed), answer(shown)];
  assert.equal(is.status, expected.status);
  const fields = all
    ? is.fields
    : Object.fromEntries(Object.keys(expected.fields).map((name) => [name, is.fields[name]]));
  assert.deepEqual(fields, expected.fields);
  if (!expected.body) return;
  same(is.body, expected.body, own);
  const length = /^Content-Length: (\d+)$/im.exec(shown)?.[1];
  // A body's last line may end as lines do.
  const lengths = [0, 1].map((end) => String(Buffer.byteLength(expected.body) + end));
  assert.ok(length === undefined || lengths.includes(length), `Content-Length: ${length} of ${lengths[0]} bytes`);
}

/**
 * What an answer has of its own instead of what is shown: later commands of the page repeat it.
 *
 * @param {string} printed
 * @param {string} shown
 * @returns {[string, string][]}
 */
export function instead(printed, shown) {
  const values = (/** @type {string} */ text) => {
    const first = text
      .trim()
      .split('\n')
      .findLast((one) => one.startsWith('{'));
    // Short values would be found in words that mean something else.
    return Object.entries(JSON.parse(first ?? '{}')).filter(
      ([name, value]) => OF_ITS_OWN.test(name) && String(value).length > 8,
    );
  };
  const said = Object.fromEntries(values(printed));
  return values(shown).map(([name, value]) => [String(value), String(said[name])]);
}
