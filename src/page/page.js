// The status page: asks for the token once, then shows what `GET status` says, again and again.

import { ask, hasToken, Refused, useToken } from './api.js';
import { byId, el } from './dom.js';
import { notices, show } from './status.js';
import { offer } from './subject.js';
import { duration } from './words.js';

/** From one look to the next, in ms. */
const EVERY_MS = 5_000;

/** Isolates that have answered since the page was opened, the last one last. @type {Set<string>} */
const isolates = new Set();
let isolate = '';
let answeredAt = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** Looks are numbered, so that one that comes back late changes nothing. */
let looks = 0;

async function look() {
  clearTimeout(timer);
  looks += 1;
  const mine = looks;
  try {
    const status = await ask('status');
    if (mine !== looks) return;
    answeredAt = Date.now();
    byId('enter').hidden = true;
    byId('leave').hidden = byId('shown').hidden = false;
    const others = isolate !== '' && isolate !== status.isolate;
    isolates.add(status.isolate);
    isolate = status.isolate;
    show(status);
    offer(status.rules);
    const changed = `Another isolate has answered: every isolate counts for itself, and these are its own numbers. ${isolates.size} have answered so far.`;
    say([...(others ? [el('div', { class: 'notice' }, changed)] : []), ...notices(status)]);
  } catch (error) {
    if (mine !== looks) return;
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) return enter('This token was not accepted.');
    if (error.status === 404) return enter('The admin API is off: ADMIN_TOKEN is not set.');
    if (answeredAt === 0) enter('');
    const ago = answeredAt === 0 ? '' : ` Shown is what it said ${duration(Date.now() - answeredAt)} ago.`;
    const why =
      error.status === 0 ? 'The gateway did not answer.' : `The gateway answered ${error.status}: ${error.message}.`;
    say([el('div', { class: 'notice bad' }, why + ago)]);
  }
  if (!document.hidden && hasToken()) timer = setTimeout(look, EVERY_MS);
}

/** Text that stays as it is is not read out again. @param {Node[]} found */
function say(found) {
  const place = byId('notices');
  const text = found.map((notice) => notice.textContent).join('\n');
  if (text !== [...place.children].map((notice) => notice.textContent).join('\n')) place.replaceChildren(...found);
}

/** Asks for the token. @param {string} why it is asked again */
function enter(why) {
  clearTimeout(timer);
  looks += 1;
  if (why) useToken('');
  say([]);
  byId('shown').hidden = byId('leave').hidden = true;
  byId('about').textContent = '';
  byId('enter').hidden = false;
  byId('token-said').textContent = why;
  byId('token').setAttribute('aria-invalid', String(why !== ''));
  byId('token').focus();
}

byId('enter').addEventListener('submit', (event) => {
  event.preventDefault();
  const field = /** @type {HTMLInputElement} */ (byId('token'));
  useToken(field.value.trim());
  field.value = '';
  look();
});

byId('leave').addEventListener('click', () => {
  useToken('');
  answeredAt = 0;
  isolate = '';
  isolates.clear();
  enter('');
});

document.addEventListener('visibilitychange', () => {
  if (!document.hidden && hasToken()) look();
});

if (hasToken()) look();
else enter('');
