// One subject of one limit: what it has used, and the means to reset or ban it.

import { ask, Refused, subjectPath } from './api.js';
import { byId, el, figures } from './dom.js';
import { granted, hasSlots, quota } from './status.js';
import { count, counted, duration, moment } from './words.js';

/** The limits that the form was made for, as text. */
let made = '';
/** @type {any[]} */
let rules = [];

/** @typedef {{ rule: any, parts: string[], plan: string }} Subject */

/** Makes the form anew where the limits have changed; else what is typed stays. @param {any[]} found */
export function offer(found) {
  const text = JSON.stringify(found);
  if (text === made) return;
  const before = made === '' ? '' : limitField().value;
  made = text;
  rules = found;
  const options = rules.map(({ name }) => el('option', { value: name, selected: name === before }, name));
  const select = el('select', { id: 'subject-limit', change: fields }, ...options);
  const label = el('label', { for: 'subject-limit' }, 'Limit');
  byId('subject-parts').replaceChildren(el('div', {}, label, select));
  byId('subject').hidden = rules.length === 0;
  fields();
}

const limitField = () => /** @type {HTMLSelectElement} */ (byId('subject-limit'));

/** A field for each part of the key. */
function fields() {
  const place = byId('subject-parts');
  while (place.children.length > 1) place.lastElementChild?.remove();
  const rule = chosen();
  rule?.key.forEach((/** @type {string} */ part, /** @type {number} */ at) => {
    if (part === 'global') return;
    const id = `subject-part-${at}`;
    const input = el('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none' });
    place.append(el('div', {}, el('label', { for: id }, part), input));
  });
  if (rule?.plans.length) {
    const plans = ['', ...rule.plans].map((plan) => el('option', { value: plan }, plan || 'none'));
    const label = el('label', { for: 'subject-plan' }, 'Plan');
    place.append(el('div', {}, label, el('select', { id: 'subject-plan' }, ...plans)));
  }
  forget();
}

const chosen = () => rules.find(({ name }) => name === limitField().value);

function forget() {
  byId('subject-said').textContent = '';
  byId('subject-known').hidden = true;
}

byId('subject').addEventListener('input', forget);
byId('subject').addEventListener('submit', (event) => {
  event.preventDefault();
  const rule = chosen();
  if (!rule) return;
  const field = (/** @type {string} */ id) => /** @type {HTMLInputElement | null} */ (document.getElementById(id));
  const parts = rule.key.map(
    (/** @type {string} */ _, /** @type {number} */ at) => field(`subject-part-${at}`)?.value ?? '',
  );
  lookUp({ rule, parts, plan: field('subject-plan')?.value ?? '' }, '');
});

/**
 * @param {Subject} subject
 * @param {string} done what was done to it just now
 */
async function lookUp(subject, done) {
  try {
    const path = subjectPath(subject.rule.name, subject.parts);
    const query = subject.plan ? `?plan=${encodeURIComponent(subject.plan)}` : '';
    const known = await ask(`limits/${path}${query}`);
    const override = await ask(`overrides/${path}`).catch(none);
    byId('subject-said').textContent = '';
    tell(subject, known, override, done);
  } catch (error) {
    fail(error);
  }
}

/** No override, or no store to keep one. @param {unknown} error */
function none(error) {
  if (error instanceof Refused && (error.status === 404 || error.status === 409)) return error.status;
  throw error;
}

/** @param {unknown} error */
function fail(error) {
  byId('subject-known').hidden = true;
  if (!(error instanceof Refused)) throw error;
  const why = error.status === 503 ? 'The store did not answer. ' : '';
  byId('subject-said').textContent = why + error.message;
}

/**
 * @param {Subject} subject
 * @param {any} known
 * @param {any} override the override, or the status that says there is none
 * @param {string} done
 */
function tell(subject, known, override, done) {
  const { rule, parts } = subject;
  const kept = typeof override === 'object';
  const units = (/** @type {number | null} */ number) =>
    number === null ? 'no limit' : counted(number, hasSlots(rule) ? 'slot' : 'unit');
  /** @type {[string, string, boolean?][]} */
  const rows = [
    ['Used', units(known.used)],
    ['Left', units(known.remaining), known.remaining === 0],
    ['Limit', known.limit === null ? 'unlimited' : granted(known.limit, rule)],
    ['All back in', known.reset_ms === null ? 'no time' : duration(known.reset_ms)],
    ['Banned', known.banned ? 'yes' : 'no', known.banned],
    ['Override', kept ? overrideText(override) : override === 409 ? 'needs a store' : 'none'],
    ['Said by', known.tier],
  ];
  if (known.retry_after_ms !== null) rows.splice(4, 0, ['May try again in', duration(known.retry_after_ms)]);
  const path = subjectPath(rule.name, parts);
  const who = parts.filter(Boolean).join(', ') || 'all requests together';
  const act = (
    /** @type {string} */ text,
    /** @type {string} */ sure,
    /** @type {[string, string, unknown?]} */ call,
    /** @type {string} */ did,
  ) => el('button', { type: 'button', click: () => doIt(subject, sure, text, call, did) }, text);
  const reset = act(
    'Reset',
    `Forget what ${who} has used of ${rule.name}?`,
    [`limits/${path}`, 'DELETE'],
    'What it had used is forgotten.',
  );
  // A slot ends with its holder or its lease.
  const buttons = hasSlots(rule) ? [] : [reset];
  if (override !== 409) {
    const ban = act(
      'Ban',
      `Ban ${who} from ${rule.name} until the ban is lifted?`,
      [`overrides/${path}`, 'PUT', { limit: 0 }],
      'It is banned.',
    );
    const lift = act(
      known.banned ? 'Lift the ban' : 'Remove the override',
      '',
      [`overrides/${path}`, 'DELETE'],
      'The policy’s limit holds again.',
    );
    if (!known.banned) buttons.push(ban);
    if (kept) buttons.push(lift);
  }
  const panel = byId('subject-known');
  panel.replaceChildren(
    el('p', {}, el('strong', {}, who), ' ', el('span', { class: 'quiet' }, `in ${rule.name}: ${quota(rule)}`)),
    el('div', { role: 'status' }, ...(done ? [el('p', { class: 'notice done' }, done)] : [])),
    el('dl', { class: 'figures' }, ...figures(rows)),
    el('div', { class: 'row' }, ...buttons),
  );
  panel.hidden = false;
}

/** @param {{ limit: number, until_ms: number | null }} override */
function overrideText({ limit, until_ms }) {
  const what = limit === 0 ? 'ban' : `limit ${count(limit)}`;
  return until_ms ? `${what} until ${moment(until_ms)}` : `${what}, until removed`;
}

/**
 * @param {Subject} subject
 * @param {string} sure what to ask first; '' asks nothing
 * @param {string} text of the button
 * @param {[path: string, method: string, body?: unknown]} call
 * @param {string} did
 */
async function doIt(subject, sure, text, call, did) {
  if (sure && !(await confirmed(sure, text))) return;
  try {
    await ask(...call);
    await lookUp(subject, did);
  } catch (error) {
    fail(error);
  }
}

/**
 * @param {string} question
 * @param {string} yes
 * @returns {Promise<boolean>}
 */
function confirmed(question, yes) {
  const dialog = /** @type {HTMLDialogElement} */ (byId('sure'));
  byId('sure-text').textContent = question;
  byId('sure-yes').textContent = yes;
  byId('sure-yes').onclick = () => dialog.close('yes');
  byId('sure-no').onclick = () => dialog.close('');
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}
