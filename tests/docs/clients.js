// The snippets of clients/README.md, run in their languages against a gateway, with stand-ins for what they call besides.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { LANGUAGES } from '../clients/process.js';
import { call } from '../edge/admin/api.js';
import { ADMIN_TOKEN } from '../edge/support/world.js';
import { root } from './pages.js';

/** What the snippets ask for. */
export const POLICY = `
[[limits]]
name = "diagnoses"
algorithm = "concurrency"
limit = 2
lease = "30s"
key = ["header:x-tenant"]
on_store_error = "closed"
`;

/** The gateway of the snippets. */
const GATEWAY = 'https://gateway.example';

const JAVASCRIPT = `
const diagnose = async ({ signal }) => (signal.throwIfAborted(), 'found');
const askAPerson = async (found) => found + ', asked';
const save = async (answer, { fence }) => console.log(JSON.stringify({ answer, fence }));
`;

const PYTHON = `
import json, os
token = os.environ["ADMIN_TOKEN"]
def diagnose(until): assert not until.is_set(); return "found"
def ask_a_person(found): return found + ", asked"
def save(answer, fence): print(json.dumps({"answer": answer, "fence": fence}))
`;

/**
 * @param {{ language: string, text: string }} block
 * @param {import('../edge/support/world.js').Edge} edge
 * @param {string} dir
 */
export async function runSnippet({ language, text }, edge, dir) {
  const isPython = language === 'python';
  const { command, missing } = LANGUAGES[isPython ? 1 : 0];
  if (missing) return;
  assert.ok(text.includes(GATEWAY), `a gateway at ${GATEWAY}`);
  const file = join(dir, isPython ? 'snippet.py' : 'snippet.js');
  const link = isPython ? 'python/sluicegate_slots.py' : 'javascript/slots.js';
  symlinkSync(join(root, 'clients', link), join(dir, String(link.split('/')[1])));
  writeFileSync(file, (isPython ? PYTHON : JAVASCRIPT) + text.replaceAll(GATEWAY, edge.url));
  const { stdout } = await promisify(execFile)(command, [file], { env: { ...process.env, ADMIN_TOKEN } });
  const { answer, fence } = JSON.parse(stdout);
  assert.equal(answer, 'found, asked');
  assert.ok(Number.isSafeInteger(fence) && fence > 0, `${fence}`);
  const slots = await call(edge, 'GET', 'slots/diagnoses/tenant-1');
  assert.deepEqual([slots.json().free, slots.json().holders], [2, []], 'it gave its slot back');
}
