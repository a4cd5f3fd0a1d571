// The pages that people read, and the pieces of them that can be run: fenced blocks, and code within a sentence.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * @typedef {object} Piece
 * @property {string} place `file:line`
 * @property {string} text
 */

/** @typedef {Piece & { language: string }} Block a fenced block, without its fences */

/**
 * @typedef {object} Page
 * @property {string} name its path from the root
 * @property {string} text
 * @property {Block[]} blocks
 * @property {Piece[]} spans code within sentences
 */

/** @param {string} name @returns {Page} */
export function read(name) {
  const text = readFileSync(join(root, name), 'utf8');
  const place = (/** @type {number} */ at) => `${name}:${text.slice(0, at).split('\n').length}`;
  const fenced = /^```(\S*)\n(.*?)^```$/gms;
  const blocks = [...text.matchAll(fenced)].map(({ 1: language, 2: block, index }) => ({
    ...{ place: place(index), language, text: block },
  }));
  // Blanked, not removed, so that lines keep their numbers.
  const prose = text.replaceAll(fenced, (block) => block.replaceAll(/[^\n]/g, ' '));
  const spans = [...prose.matchAll(/(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)/g)].map(({ 2: span, index }) => ({
    ...{ place: place(index), text: span },
  }));
  return { name, text, blocks, spans };
}

export const pages = globSync(['*.md', 'docs/*.md', 'clients/*.md'], { cwd: root }).sort().map(read);
export const examples = globSync('examples/*.toml', { cwd: root }).sort().map(read);

/** @param {string} name @returns {Page} */
export function page(name) {
  const found = pages.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no page is named ${name}`);
  return found;
}
