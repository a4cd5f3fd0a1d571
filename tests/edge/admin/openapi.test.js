// The document is OpenAPI 3.1, its examples are of its schemas, and the running Worker answers every request that can
// be made from it, right or wrong, as it says.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { limit, policy } from '../support/policy.js';
import { ADMIN_TOKEN, useWorld } from '../support/world.js';
import { AUTHORIZED } from './api.js';
import { document, holds, operations, resolve, wrong } from './openapi.js';

/** @typedef {import('./openapi.js').Operation} Operation */

const world = useWorld();

test('the document is OpenAPI 3.1', async () => {
  const result = await new Validator().validate(structuredClone(document));
  assert.deepEqual(result, { valid: true });
});

test('every example is of its schema', () => {
  let seen = 0;
  const walk = (/** @type {any} */ node, /** @type {string[]} */ place) => {
    if (node === null || typeof node !== 'object') return;
    if (node.schema && node.example !== undefined) {
      assert.equal(wrong([...place, 'schema'], node.example), null, place.join('/'));
      seen += 1;
    }
    for (const [step, below] of Object.entries(node)) walk(below, [...place, step]);
  };
  walk(document, []);
  assert.ok(seen > 10, `${seen}`);
});

/** Limits that the document's own examples speak of, and one of two parts. */
const text = policy([
  limit('tenant-minute', { key: ['header:x-tenant'], plan: 'header:x-plan', plans: { pro: 600 } }),
  limit('pair', { key: ['ip', 'header:x-tenant'] }),
  {
    ...{ name: 'streams', algorithm: 'concurrency', limit: 2, lease: '1m' },
    ...{ key: ['header:x-tenant'], on_store_error: 'closed' },
  },
]);

const TOKENS = [{}, { authorization: 'Bearer wrong' }, { authorization: `Basic ${ADMIN_TOKEN}` }, AUTHORIZED];
const NAMES = ['pair', 'tenant-minute', 'streams', 'nosuch', '%20', '%F0%9F%98%80', '__proto__', 'x'.repeat(200)];
const SUBJECTS = ['a%2Cb', 'a,b', '192.0.2.1,acme', '-', '-,-', '', '%', '%zz', '%ff', '%2F..%2F..', '%E2%82%AC'];
const IDS = ['%2F', '-', 'x'.repeat(300)];
/** One value of every type, for wherever another is wanted. */
const VALUES = [
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  7,
  '',
  '7',
  'x',
  '\u0000',
  '2027-01-01T00:00:00Z',
  [],
  [1],
  {},
  { a: 1 },
];

/**
 * Paths of an operation with each parameter in turn as it may be and as it may not.
 *
 * @param {Operation} operation
 */
function paths({ path, parameters }) {
  /** @type {Record<string, string[]>} */
  const values = { name: NAMES, subject: SUBJECTS, id: IDS };
  const inPath = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name);
  const usually = (/** @type {string} */ name) =>
    String(parameters.find((parameter) => parameter.in === 'path' && parameter.name === name)?.example);
  const usual = path.replaceAll(/\{(\w+)\}/g, (_, name) => usually(name));
  const spelled = inPath.flatMap((odd) =>
    values[odd].map((value) => path.replaceAll(/\{(\w+)\}/g, (_, name) => (name === odd ? value : usually(name)))),
  );
  const queries = parameters
    .filter((parameter) => parameter.in === 'query')
    .flatMap(({ name, example }) => [
      `?${name}=${example}`,
      `?${name}=`,
      `?${name}=%ff`,
      `?${name}`,
      `?x=1&${name}=nosuch`,
    ]);
  return [usual, ...new Set(spelled), ...queries.map((query) => usual + query)];
}

/**
 * Bodies of an operation: the example, texts that are no JSON, and the example as a list, or with each field missing, of
 * every other type, or beside one too many.
 *
 * @param {Operation} operation
 * @returns {(string | undefined)[]}
 */
function bodies({ definition }) {
  const media = definition.requestBody?.content['application/json'];
  if (!media) return [undefined];
  const example = media.example;
  const fields = Object.keys(resolve(media.schema).properties);
  const varied = fields.flatMap((field) => [
    ...VALUES.map((value) => ({ ...example, [field]: value })),
    Object.fromEntries(Object.entries(example).filter(([name]) => name !== field)),
  ]);
  const texts = [
    '',
    ' ',
    '{',
    'x',
    'null',
    '[]',
    '7',
    '"x"',
    '\u0000',
    '{"a":1,"a":2}',
    `{"a":"${'x'.repeat(70_000)}"}`,
    JSON.stringify(Object.values(example)),
    JSON.stringify([example]),
  ];
  return [example, { ...example, more: 1 }, ...varied].map((body) => JSON.stringify(body)).concat(texts);
}

/**
 * Whether a body is what the document says may be sent.
 *
 * @param {Operation} operation
 * @param {string | undefined} body
 */
function fits({ path, method, definition }, body) {
  if (!definition.requestBody) return true;
  const media = ['requestBody', 'content', 'application/json', 'schema'];
  try {
    const value = JSON.parse(String(body));
    return wrong(['paths', path, method.toLowerCase(), ...media], value) === null;
  } catch {
    return body?.trim() === '' && !definition.requestBody.required;
  }
}

/** Of the right shape, but wrong by what they say: a moment that is past, an id that is not the path's. */
const WRONG_BY_MEANING = /until .* is in the past|another one than in the path|none that can be read/;

describe('the Worker answers as the document says', () => {
  for (const operation of operations) {
    test(operation.id, async () => {
      const edge = await world.gateway(text);
      const [usual, ...others] = paths(operation);
      const [body, ...odd] = bodies(operation);
      const requests = [
        ...TOKENS.map((headers) => ({ path: usual, body, headers })),
        ...others.map((path) => ({ path, body, headers: AUTHORIZED })),
        ...odd.map((body) => ({ path: usual, body, headers: AUTHORIZED })),
      ];
      /** @type {Record<number, number>} */
      const seen = {};
      for (const { path, body, headers } of requests) {
        const reply = await edge.send(path, { method: operation.method, headers, body, ip: '' });
        holds(operation.method, path, reply);
        seen[reply.status] = (seen[reply.status] ?? 0) + 1;
        assert.ok(reply.status !== 500, `${path} ${body}: a fault`);
      }
      // What may be sent is never called wrong, and what may not always.
      for (const text of [body, ...odd]) {
        const reply = await edge.send(usual, { method: operation.method, headers: AUTHORIZED, body: text, ip: '' });
        const taken = ![400, 413].includes(reply.status) || WRONG_BY_MEANING.test(reply.text);
        assert.equal(taken, fits(operation, text), `${text?.slice(0, 200)}: ${reply.status} ${reply.text}`);
      }
      if (operation.id === 'health') assert.deepEqual(Object.keys(seen), ['200']);
      else if (operation.definition.security?.length !== 0) assert.equal(seen[401], 3, JSON.stringify(seen));
      if (operation.definition.requestBody && seen[200]) assert.ok(seen[400] > 10, JSON.stringify(seen));
      assert.equal(world.origin.seen.length, 0, 'forwarded');
    });
  }

  test('under a policy that is wrong', async () => {
    const edge = await world.gateway({ version: 2 });
    for (const operation of operations) {
      const [path] = paths(operation);
      const [body] = bodies(operation);
      const reply = await edge.send(path, { method: operation.method, headers: AUTHORIZED, body });
      holds(operation.method, path, reply);
      assert.equal(reply.status, operation.id === 'health' ? 503 : 500);
    }
  });

  test('while the store fails', async () => {
    const edge = await world.gateway(text);
    world.store.faults.always({ kind: 'reply', status: 502, body: 'x' });
    for (const operation of operations) {
      const [path] = paths(operation);
      const [body] = bodies(operation);
      const reply = await edge.send(path, { method: operation.method, headers: AUTHORIZED, body });
      holds(operation.method, path, reply);
    }
  });
});
