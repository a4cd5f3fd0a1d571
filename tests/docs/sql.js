// SQL of the pages, run by SQLite: fences on a table of one row, queries on what a gateway has written to Analytics Engine.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';

/** Stands in for the binding: what is written goes to the log. */
export const ANALYTICS = `export default () => ({
  writeDataPoint(point) { console.log(JSON.stringify({ event: 'point', ...point })); },
});`;

/** @typedef {{ indexes: string[], blobs: string[], doubles: number[] }} Point */

/** An UPDATE that a fence guards: it changes the row under the fence that it has and a higher one, and no lower one. @param {string} text */
export function runFence(text) {
  const database = new DatabaseSync(':memory:');
  const table = /^UPDATE (\w+) SET/.exec(text)?.[1];
  assert.ok(table, text);
  database.exec(`CREATE TABLE ${table} (id, body, fence); INSERT INTO ${table} VALUES (7, 'first', 10)`);
  const update = database.prepare(text);
  const changed = [9, 10, 11, 10].map((fence) => update.run({ $1: `by ${fence}`, $2: fence, $3: 7 }).changes);
  assert.deepEqual(changed, [0, 1, 1, 0]);
  assert.deepEqual({ ...database.prepare(`SELECT * FROM ${table}`).get() }, { id: 7, body: 'by 11', fence: 11 });
  assert.equal(update.run({ $1: 'other', $2: 99, $3: 8 }).changes, 0, 'another row');
}

const SECONDS = { MINUTE: 60, HOUR: 3_600, DAY: 86_400 };

/** What Analytics Engine writes otherwise than SQLite. @param {string} text */
const translated = (text) =>
  text
    .replaceAll(/INTERVAL '(\d+)' (MINUTE|HOUR|DAY)\b/g, (_, count, unit) =>
      String(count * SECONDS[/** @type {keyof typeof SECONDS} */ (unit)]),
    )
    .replaceAll(/position\(('[^']*') IN ((?:[^()]|\([^()]*\))+)\)/g, 'position($1, $2)')
    .replaceAll('format(', 'filled(');

/**
 * A query about decisions, which finds something. There are the columns that the code writes, and no others.
 *
 * @param {string} text
 * @param {Point[]} points
 */
export function runQuery(text, points) {
  const database = new DatabaseSync(':memory:');
  database.function('now', () => Date.now() / 1000);
  database.function('toStartOfInterval', (at, seconds) => Number(at) - (Number(at) % Number(seconds)));
  database.function('position', (needle, hay) => String(hay).indexOf(String(needle)) + 1);
  database.function('filled', { varargs: true }, (pattern, ...values) =>
    String(pattern).replaceAll('{}', () => String(values.shift())),
  );
  const columns = ['timestamp', '_sample_interval', ...columnsOf(points[0])];
  database.exec(`CREATE TABLE sluicegate (${columns.join(', ')})`);
  const insert = database.prepare(`INSERT INTO sluicegate VALUES (${columns.map(() => '?').join(', ')})`);
  for (const { indexes, blobs, doubles } of points) {
    insert.run(Date.now() / 1000 - 1, 1, ...indexes, ...blobs, ...doubles);
  }
  const rows = database.prepare(translated(text)).all();
  assert.ok(rows.length > 0, 'no row');
  for (const row of rows) assert.ok(!Object.values(row).includes(null), JSON.stringify(row));
  return rows;
}

/** @param {Point} point */
export const columnsOf = ({ indexes, blobs, doubles }) => [
  ...indexes.map((_, at) => `index${at + 1}`),
  ...blobs.map((_, at) => `blob${at + 1}`),
  ...doubles.map((_, at) => `double${at + 1}`),
];
