// Rows and how they are shown.

import { median } from './statistics.js';

/**
 * @typedef {object} Row
 * @property {string} figure
 * @property {string} unit
 * @property {number[]} values one a round; the figure is their median
 * @property {'count' | 'timing'} kind a count is the same on every machine and every run
 * @property {number} [must] the figure may not be above it
 * @property {boolean} [exactly] nor below it
 * @property {number | string} [aim]
 * @property {string} [note]
 */

/** @typedef {'' | 'ok' | 'MISS'} Verdict */

/** @param {Row} row @returns {Verdict} */
export function verdict({ values, must, exactly = false }) {
  if (must === undefined) return '';
  const figure = median(values);
  // NaN, where nothing could be measured, is a miss.
  return (exactly ? figure === must : figure <= must) ? 'ok' : 'MISS';
}

/** @param {number} value @param {string} unit */
export function number(value, unit) {
  if (Number.isInteger(value) && unit !== '×') return value.toLocaleString('en-US');
  return value.toFixed(unit === '×' ? 2 : Math.abs(value) < 100 ? 1 : 0);
}

/** @param {Row} row */
function cells(row) {
  const { figure, unit, values, must, exactly, aim, note = '' } = row;
  const suffix = unit === '×' || unit === '' ? unit : ` ${unit}`;
  const show = (/** @type {number} */ value) => number(value, unit);
  const low = Math.min(...values);
  const high = Math.max(...values);
  return [
    figure,
    `${show(median(values))}${suffix}`,
    low === high ? '' : `${show(low)}–${show(high)}`,
    must === undefined ? '' : `${exactly ? '=' : '≤'} ${show(must)}`,
    typeof aim === 'number' ? show(aim) : (aim ?? ''),
    verdict(row),
    note,
  ];
}

const HEADINGS = ['figure', 'median', 'spread', 'must', 'aim', 'verdict', 'beside it'];

/** For a terminal. @param {Row[]} rows */
export function text(rows) {
  const lines = [HEADINGS, ...rows.map(cells)];
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** @param {Row[]} rows */
export function markdown(rows) {
  const escaped = (/** @type {string} */ cell) => cell.replaceAll('|', '\\|');
  const lines = [
    HEADINGS,
    HEADINGS.map((_, column) => (column === 0 || column > 4 ? '---' : '---:')),
    ...rows.map(cells),
  ];
  return lines.map((line) => `| ${line.map(escaped).join(' | ')} |`).join('\n');
}
