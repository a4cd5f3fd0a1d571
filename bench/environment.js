// Where and on what a run took place.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem, type } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/**
 * @param {import('./world.js').World} world
 * @returns {Promise<Record<string, string>>}
 */
export async function environment({ db }) {
  const server = await db.info('server');
  const redis = /^(?:valkey|redis)_version:(\S+)/m.exec(server)?.[1];
  const gib = (totalmem() / 2 ** 30).toFixed(1);
  return {
    date: new Date().toISOString().slice(0, 16).replace('T', ' '),
    CPU: `${cpus()[0]?.model.trim()}, ${cpus().length} cores, ${gib} GiB`,
    'load before': loadavg()[0].toFixed(2),
    system: `${type()} ${release()}`,
    workerd: execFileSync(join(root, 'node_modules', '.bin', 'workerd'), ['--version'], { encoding: 'utf8' }).trim(),
    redis: `${redis}`,
    node: process.version,
    '@upstash/ratelimit': packageVersion('@upstash/ratelimit'),
    commit: commit() ?? 'unknown',
    // The commit does not say what was built; this does.
    'index_bg.wasm': createHash('sha256')
      .update(readFileSync(join(root, 'build', 'index_bg.wasm')))
      .digest('hex')
      .slice(0, 12),
  };
}

/** @param {string} name */
function packageVersion(name) {
  return JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')).version;
}

/** The commit that is checked out, read from the files, so that git need not be there. */
function commit() {
  let directory = join(root, '.git');
  if (!existsSync(directory)) return undefined;
  const elsewhere = readIfFile(directory)?.match(/^gitdir: (.+)$/m)?.[1];
  if (elsewhere) directory = resolve(root, elsewhere);
  const common = resolve(directory, readIfFile(join(directory, 'commondir'))?.trim() ?? '.');
  const head = readIfFile(join(directory, 'HEAD'))?.trim();
  const branch = head?.match(/^ref: (.+)$/)?.[1];
  if (!branch) return head?.slice(0, 12);
  const packed = readIfFile(join(common, 'packed-refs'))?.match(new RegExp(`^(\\w+) ${branch}$`, 'm'))?.[1];
  return (readIfFile(join(common, branch))?.trim() ?? packed)?.slice(0, 12);
}

/** @param {string} path */
function readIfFile(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
