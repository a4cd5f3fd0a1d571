// The status page: one document that holds nothing but itself, whoever asks.

import { html, security } from '#page';

/** @param {string} method */
export function page(method) {
  const headers = new Headers({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': security,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  });
  return new Response(method === 'HEAD' ? null : html, { headers });
}
