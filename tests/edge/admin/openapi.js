// docs/openapi.json as a judge: whether an answer is one that the document lists, and of the shape it gives.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

/** @typedef {import('../support/client.js').Reply} Reply */

/** @type {any} */
export const document = JSON.parse(readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8'));

const ajv = new Ajv2020({ strict: false, allErrors: true });
/** @type {any} */ (formats)(ajv);
ajv.addSchema(document, 'openapi');

/**
 * What a reference in the document stands for; anything else is itself.
 *
 * @param {any} value
 * @returns {any}
 */
export function resolve(value) {
  if (typeof value?.$ref !== 'string') return value;
  return value.$ref
    .slice(2)
    .split('/')
    .reduce((/** @type {any} */ at, /** @type {string} */ step) => at[step], document);
}

/**
 * @typedef {object} Operation
 * @property {string} id
 * @property {string} method
 * @property {string} path as the document has it, with its parameters in braces
 * @property {any} definition
 * @property {any[]} parameters
 */

/** @type {Operation[]} */
export const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  ['get', 'put', 'post', 'delete']
    .filter((method) => item[method])
    .map((method) => {
      const definition = item[method];
      const parameters = [...(item.parameters ?? []), ...(definition.parameters ?? [])].map(resolve);
      return { id: definition.operationId, method: method.toUpperCase(), path, definition, parameters };
    }),
);

/**
 * Whether a value is of the schema at this place of the document.
 *
 * @param {string[]} place
 * @param {unknown} value
 * @returns {string | null} what is wrong
 */
export function wrong(place, value) {
  const pointer = place.map((step) => encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
  const ok = ajv.validate({ $ref: `openapi#/${pointer}` }, value);
  return ok ? null : ajv.errorsText();
}

/**
 * The operation that a request belongs to; none where the document has no such path or method.
 *
 * @param {string} method
 * @param {string} path as sent
 */
export function operationOf(method, path) {
  const segments = path.replace(/\?.*/s, '').split('/');
  return operations.find((operation) => {
    const steps = operation.path.split('/');
    const fits = (/** @type {string} */ step, /** @type {number} */ at) =>
      step.startsWith('{') || step === segments[at];
    return operation.method === method && steps.length === segments.length && steps.every(fits);
  });
}

/**
 * An answer that the document foresees: its status is listed, and its type and body are those of that status.
 *
 * @param {string} method
 * @param {string} path as sent
 * @param {Reply} reply
 */
export function holds(method, path, reply) {
  const what = `${method} ${path.slice(0, 200)}: ${reply.status} ${reply.text.slice(0, 500)}`;
  const operation = operationOf(method, path);
  assert.ok(operation, `${what}: not in the document`);
  const listed = operation.definition.responses[reply.status];
  assert.ok(listed, `${what}: a status that ${operation.id} does not list`);
  const place = listed.$ref
    ? listed.$ref.slice(2).split('/')
    : ['paths', operation.path, method.toLowerCase(), 'responses', String(reply.status)];
  const response = resolve(listed);
  const type = String(reply.headers['content-type']);
  assert.deepEqual(Object.keys(response.content), [type], `${what}: its type`);
  const body = type.includes('json') ? reply.json() : reply.text;
  assert.equal(wrong([...place, 'content', type, 'schema'], body), null, what);
  for (const [name, header] of Object.entries(response.headers ?? {})) {
    const value = reply.headers[name.toLowerCase()];
    if (header.required || value !== undefined) {
      assert.equal(wrong([...place, 'headers', name, 'schema'], value), null, `${what}: ${name}`);
    }
  }
}
