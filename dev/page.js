// The status page in one piece: src/page/ with its style and script inlined, and the policy that allows these and no others.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const sources = join(dirname(fileURLToPath(import.meta.url)), '..', 'src', 'page');

/** @param {string} entry a file of src/page @returns {Promise<string>} it and what it imports, minified */
async function bundled(entry) {
  const target = ['es2024', 'chrome123', 'firefox120', 'safari17.5'];
  const options = { bundle: true, minify: true, charset: /** @type {const} */ ('utf8'), target, write: false };
  const { outputFiles } = await build({ ...options, entryPoints: [join(sources, entry)], format: 'esm' });
  return /** @type {{ text: string }[]} */ (outputFiles)[0].text.trim();
}

/** @param {string} text */
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** @returns {Promise<string>} a module that exports `html` and `security`, the Content-Security-Policy */
export async function pageModule() {
  const [style, script] = await Promise.all(['page.css', 'page.js'].map(bundled));
  // A script ends at the first `</script`, whatever stands around it.
  if (/<\/(script|style)/i.test(style + script)) throw new Error('the page would end inside its script or style');
  const html = readFileSync(join(sources, 'index.html'), 'utf8')
    .replace('<!-- style -->', () => `<style>${style}</style>`)
    .replace('<!-- script -->', () => `<script type="module">${script}</script>`);
  const security = [
    ...["default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, "connect-src 'self'"],
    // A browser that is given no icon asks the origin for one, and is counted by whatever limits that path.
    'img-src data:',
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ...["require-trusted-types-for 'script'", "trusted-types 'none'"],
  ].join('; ');
  return `export const html = ${JSON.stringify(html)};\nexport const security = ${JSON.stringify(security)};\n`;
}
