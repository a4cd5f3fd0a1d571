// What `GET status` says, as figures, tables and notices.

import { byId, el, figures, table } from './dom.js';
import { legend, minutes, plot } from './plot.js';
import { count, counted, duration, moment } from './words.js';

/** @typedef {any} Status the answer of `GET status`; docs/openapi.json describes it */

/** What was drawn last, so that a new width can draw it again. @type {Status} */
let last;

/** @param {Status} status */
export function show(status) {
  last = status;
  byId('about').textContent =
    `isolate ${status.isolate}, up for ${duration(status.uptime_ms)}, version ${status.version}`;
  byId('figures').replaceChildren(...figures(now(status)));
  draw();
  byId('legend').replaceChildren(...legend(status.recent));
  byId('minutes').replaceChildren(minutes(status.recent));
  byId('limits').replaceChildren(limits(status));
  byId('policy').replaceChildren(...figures(policy(status)));
  byId('routes').replaceChildren(routes(status));
}

function draw() {
  const place = byId('plot');
  if (last) place.replaceChildren(plot(last.recent, Math.max(280, place.clientWidth - 16)));
}

new ResizeObserver(draw).observe(byId('plot'));

/** @param {Status} status @returns {[string, string, boolean?][]} */
function now({ store, tier, decisions, memory, refusals_not_logged: unsaid }) {
  /** @type {[string, string, boolean?][]} */
  const rows = [
    ['Decided by', tier],
    ['Passed', counted(decisions.allowed, 'request')],
    ['Refused', counted(decisions.refused, 'request')],
  ];
  if (store) {
    const { state, window } = store.breaker;
    const ms = (/** @type {number | null} */ number) => (number === null ? 'no call yet' : `${count(number)} ms`);
    rows.push(
      ['Breaker', state, state !== 'closed'],
      ['Calls in its window', `${counted(window.calls, 'call')}, ${window.failed} failed, ${window.slow} slow`],
      ['Store latency, p50', ms(store.latency_ms.p50)],
      ['Store latency, p99', ms(store.latency_ms.p99)],
      ['Store calls', `${counted(store.calls, 'call')}, ${count(store.retries)} retried`],
      ['Under way', `${count(store.in_flight)} of ${counted(store.max_in_flight, 'call')}`],
      ['Kept from the store', counted(store.kept_back.breaker + store.kept_back.bulkhead, 'request')],
    );
  }
  rows.push(
    ['Counted here', `${count(memory.subjects)} of ${counted(memory.max_subjects, 'subject')}`],
    ['Remembered', counted(memory.refusals, 'refusal')],
  );
  if (unsaid) rows.push(['Without a log line', counted(unsaid, 'refusal')]);
  return rows;
}

/** @param {Status} status */
function limits({ limits, rules }) {
  const titles = ['Limit', 'Quota', 'Counted by', 'Passed', 'Refused', 'Spared', 'In shadow', 'Refused, share'];
  const rows = limits.map((/** @type {any} */ limit) => {
    const rule = rules.find((/** @type {any} */ one) => one.name === limit.name);
    const asked = limit.allowed + limit.refused;
    return [
      limit.name,
      rule ? quota(rule) : '',
      rule ? rule.key.join(', ') : '',
      ...[limit.allowed, limit.refused, limit.spared, limit.shadowed].map(count),
      asked ? `${count((100 * limit.refused) / asked)} %` : '–',
    ];
  });
  return table(titles, titles.slice(3), rows, 'The policy has no limits.');
}

/** Whether it is slots that are taken and given back, rather than units that come back with time. @param {any} rule */
export const hasSlots = ({ algorithm }) => algorithm === 'concurrency';

/** So many units of a limit. @param {number} units @param {any} rule */
export const granted = (units, rule) =>
  `${count(units)} ${hasSlots(rule) ? 'at once' : `per ${duration(rule.window_ms)}`}`;

/** @param {any} rule */
export function quota(rule) {
  const { limit, burst, algorithm, shadow } = rule;
  const units = typeof limit === 'number' ? granted(limit, rule) : String(limit);
  const at_once = typeof burst === 'number' && burst !== limit ? `, ${count(burst)} at once` : '';
  return `${units}${at_once}, ${algorithm}${shadow ? ', shadow' : ''}`;
}

/** @param {Status} status @returns {[string, string, boolean?][]} */
function policy({ policy: { digest, limits, routes }, reload }) {
  /** @type {[string, string, boolean?][]} */
  const rows = [
    ['Digest', digest],
    ['From', reload.source],
    ['Holds', `${counted(limits, 'limit')}, ${counted(routes, 'route')}`],
    ['Reloaded', reload.reloaded_at_ms ? moment(reload.reloaded_at_ms) : 'never'],
  ];
  if (reload.reads + reload.unread) {
    rows.push(['POLICY_KV', `${counted(reload.reads, 'read')}, ${count(reload.unread)} failed`, reload.failing]);
  }
  return rows;
}

/** @param {Status} status */
function routes({ routes }) {
  const rows = routes.map((/** @type {any} */ { name, methods, host, path, limits }) => [
    name,
    el('code', {}, `${methods.join(', ') || 'any method'} ${host ?? ''}${path}`),
    limits.join(', ') || 'none',
  ]);
  return table(['Route', 'Takes', 'Limits'], [], rows, 'The policy has no routes.');
}

/** What an operator should know before the numbers. @param {Status} status @returns {Node[]} */
export function notices({ store, reload }) {
  /** @type {Node[]} */
  const said = [];
  const notice = (/** @type {string} */ kind, /** @type {(Node | string)[]} */ ...text) =>
    said.push(el('div', { class: `notice ${kind}` }, ...text));
  if (!store) notice('', 'No store is configured: each isolate counts for itself.');
  if (store?.breaker.state === 'open') {
    const wait = duration(store.breaker.opens_for_ms);
    notice(
      'bad',
      `The store fails: the breaker is open, and asks it again in ${wait}. Until then each limit’s failure policy decides.`,
    );
  }
  if (store?.breaker.state === 'half-open')
    notice('', 'The store failed: the breaker is half-open and lets probes out.');
  if (reload.errors.length) {
    const errors = reload.errors.map((/** @type {string} */ error) => el('li', {}, error));
    notice('bad', 'POLICY_KV holds a policy that is wrong; the one before it stays.', el('ul', {}, ...errors));
  }
  if (reload.failing) notice('', 'POLICY_KV cannot be read; the policy in force stays.');
  return said;
}
