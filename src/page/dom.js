// Elements. All text becomes text nodes, so a name is shown as it is and never read as markup.

/** @typedef {Record<string, string | number | boolean | ((event: Event) => void)>} Attributes */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes] functions listen to the event of their name; false leaves out
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {(Node | string)[]} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes} attributes
 * @param {(Node | string)[]} children
 * @returns {E}
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== false) element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children);
  return element;
}

/**
 * An element of index.html.
 *
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/**
 * A table; cells in columns whose title stands under `numbers` are aligned as numbers.
 *
 * @param {string[]} titles
 * @param {string[]} numbers
 * @param {(Node | string)[][]} rows the first cell of each names it
 * @param {string} none said where there is no row
 */
export function table(titles, numbers, rows, none) {
  /** @returns {Attributes} */
  const kind = (/** @type {number} */ column) => (numbers.includes(titles[column]) ? { class: 'number' } : {});
  // On a narrow screen each cell stands under its own title.
  const cell = (/** @type {Node | string} */ value, /** @type {number} */ at) =>
    at ? el('td', { ...kind(at), 'data-title': titles[at] }, value) : el('th', { scope: 'row' }, value);
  const head = titles.map((title, column) => el('th', { scope: 'col', ...kind(column) }, title));
  const body = rows.map((cells) => el('tr', {}, ...cells.map(cell)));
  if (!body.length) body.push(el('tr', {}, el('td', { colspan: titles.length, class: 'quiet' }, none)));
  return el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...body));
}

/**
 * Rows of a list of figures.
 *
 * @param {[title: string, value: string, bad?: boolean][]} rows
 */
export function figures(rows) {
  return rows.map(([title, value, bad]) =>
    el('div', {}, el('dt', {}, title), el('dd', bad ? { class: 'bad' } : {}, value)),
  );
}
