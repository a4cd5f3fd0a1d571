// A browser of the system's, for the tests of the status page; they are skipped where there is none.
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** @param {string} path */
function runs(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const places = String(process.env.PATH)
  .split(delimiter)
  .flatMap((folder) => NAMES.map((name) => join(folder, name)));

/** Its path: `CHROMIUM`, or the first on the PATH. */
export const BROWSER = process.env.CHROMIUM ?? places.find(runs);

/** For `describe`: false, or why nothing is tested. */
export const skip = BROWSER ? false : 'no Chromium on the PATH: install one, or name one by CHROMIUM';

export function useBrowser() {
  const shared = { browser: /** @type {import('playwright-core').Browser} */ ({}) };
  before(async () => {
    if (!BROWSER) return;
    // Where tests run as root the browser's own sandbox cannot start; it sees this project's pages alone.
    const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    shared.browser = await chromium.launch({ executablePath: BROWSER, args });
  });
  after(() => shared.browser.close?.());
  return shared;
}
