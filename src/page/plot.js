// Decisions by tier over time: stacked columns, with what was refused as a line across them.

import { el, svg, table } from './dom.js';
import { clock, count, counted } from './words.js';

const HEIGHT = 190;
const [TOP, RIGHT, BOTTOM, LEFT] = [8, 8, 22, 46];

/**
 * @typedef {object} Recent
 * @property {number} step_ms
 * @property {number} now_ms
 * @property {Record<string, number[]>} tiers
 * @property {number[]} refused
 */

/** What a tier means, for the legend. @type {Record<string, string>} */
const MEANING = {
  store: 'decided by the store',
  cache: 'a remembered refusal',
  isolate: 'decided inside the isolate',
  degraded: 'store down: a share of the limit',
  open: 'store down: let through',
  closed: 'store down: refused',
};

/** @param {Recent} recent */
function sums({ tiers, refused }) {
  return refused.map((_, at) => Object.values(tiers).reduce((sum, counts) => sum + counts[at], 0));
}

/** The least of 1, 2, 5, 10, 20 … that is no less. @param {number} most */
function roundUp(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((bound) => bound >= most) ?? most;
}

/**
 * @param {Recent} recent
 * @param {number} width in px
 * @returns {Node}
 */
export function plot(recent, width) {
  const totals = sums(recent);
  const most = Math.max(...totals);
  if (most === 0) return el('p', { class: 'quiet empty' }, 'No decision in the last 10 minutes.');
  const bound = roundUp(most);
  const wide = (width - LEFT - RIGHT) / totals.length;
  const x = (/** @type {number} */ at) => LEFT + at * wide;
  const y = (/** @type {number} */ number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - number / bound);
  const [decided, refused] = [totals, recent.refused].map((counts) => counts.reduce((sum, number) => sum + number, 0));
  const label = `${counted(decided, 'decision')} in the last 10 minutes, ${count(refused)} of them refused; at most ${count(most)} in 10 seconds`;
  const picture = svg('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: 'img', 'aria-label': label });
  for (const share of [0, 0.5, 1]) {
    const height = y(bound * share);
    picture.append(
      svg('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: height, y2: height }),
      svg('text', { x: LEFT - 6, y: height + 4, 'text-anchor': 'end' }, count(bound * share)),
    );
  }
  for (const [at, text] of /** @type {const} */ ([
    [0, '10 min ago'],
    [0.5, '5 min ago'],
    [1, 'now'],
  ])) {
    const anchor = at === 0 ? 'start' : at === 1 ? 'end' : 'middle';
    picture.append(svg('text', { x: x(at * totals.length), y: HEIGHT - 6, 'text-anchor': anchor }, text));
  }
  totals.forEach((total, at) => {
    if (total) picture.append(column(recent, at, { x: x(at), width: Math.max(1, wide - 1), y }));
  });
  if (refused) {
    const points = recent.refused.flatMap((number, at) => [`${x(at)},${y(number)}`, `${x(at + 1)},${y(number)}`]);
    picture.append(svg('polyline', { class: 'refused', points: points.join(' ') }));
  }
  return picture;
}

/**
 * @param {Recent} recent
 * @param {number} at
 * @param {{ x: number, width: number, y: (number: number) => number }} place
 */
function column({ tiers, refused, now_ms, step_ms }, at, place) {
  const began = (Math.floor(now_ms / step_ms) - refused.length + 1 + at) * step_ms;
  const parts = Object.entries(tiers).filter(([, counts]) => counts[at] > 0);
  const words = parts.map(([tier, counts]) => `${tier} ${count(counts[at])}`);
  const title = `${clock(began)}, 10 s: ${words.join(', ')}; refused ${count(refused[at])}`;
  const group = svg('g', {}, svg('title', {}, title));
  let below = 0;
  for (const [tier, counts] of parts) {
    const [top, bottom] = [place.y(below + counts[at]), place.y(below)];
    const box = { x: place.x, width: place.width, y: top, height: bottom - top };
    group.append(svg('rect', { class: `tier-${tier}`, ...box }));
    below += counts[at];
  }
  return group;
}

/** @param {Recent} recent @returns {Node[]} */
export function legend({ tiers, refused }) {
  const total = (/** @type {number[]} */ counts) => count(counts.reduce((sum, number) => sum + number, 0));
  const entry = (/** @type {Node} */ mark, /** @type {string} */ text) =>
    el('span', {}, svg('svg', { viewBox: '0 0 14 12', 'aria-hidden': 'true' }, mark), text);
  const entries = Object.entries(tiers).map(([tier, counts]) =>
    entry(
      svg('rect', { class: `tier-${tier}`, width: 12, height: 12 }),
      `${tier}: ${total(counts)} (${MEANING[tier] ?? tier})`,
    ),
  );
  const line = svg('line', { class: 'refused', x1: 0, x2: 14, y1: 6, y2: 6 });
  return entries.length ? [...entries, entry(line, `refused: ${total(refused)}`)] : [];
}

/** The same by the minute, for who would rather read. @param {Recent} recent */
export function minutes(recent) {
  const { tiers, refused, now_ms, step_ms } = recent;
  const names = Object.keys(tiers);
  const each = 60_000 / step_ms;
  const rows = [];
  for (let from = refused.length - each; from >= 0; from -= each) {
    const sum = (/** @type {number[]} */ counts) =>
      count(counts.slice(from, from + each).reduce((total, number) => total + number, 0));
    const began = (Math.floor(now_ms / step_ms) - refused.length + 1 + from) * step_ms;
    rows.push([`from ${clock(began)}`, ...names.map((tier) => sum(tiers[tier])), sum(refused)]);
  }
  const titles = ['Minute', ...names.map((tier) => `${tier} (decisions)`), 'refused (decisions)'];
  return table(titles, titles.slice(1), rows, '');
}
