// What is uploaded, in bytes.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const build = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'build');

/** @returns {Promise<import('../table.js').Row[]>} */
export async function size() {
  const [wasm, script] = ['index_bg.wasm', 'index.js'].map((name) => readFileSync(join(build, name)));
  const zipped = (/** @type {Buffer} */ bytes) => gzipSync(bytes, { level: 9 }).length;
  const kind = /** @type {const} */ ('count');
  return [
    { figure: 'Wasm, gzipped', unit: 'B', values: [zipped(wasm)], kind, must: 250_000, aim: 150_000 },
    { figure: 'Wasm, raw', unit: 'B', values: [wasm.length], kind },
    { figure: 'JavaScript, gzipped', unit: 'B', values: [zipped(script)], kind, note: `${script.length} B raw` },
  ];
}
