// @upstash/ratelimit with three sliding windows asked in parallel, set up as its documentation says and with its
// defaults: ephemeral cache on, one client and one limiter each for the life of the isolate, automatic pipelining
// (so the three calls are one HTTP request). It reads the subject from the same body as the gateway's check.
//
// SPENT: the third limit passes one request a day, so that every subject is soon refused.
// ORIGIN: it proxies; the subject is a header, and what is let through is fetched.

import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis/cloudflare';

/** @type {Ratelimit[] | undefined} */
let limiters;

export default {
  async fetch(request, env) {
    limiters ??= start(env);
    const subject = env.ORIGIN ? request.headers.get('x-tenant') : (await request.json()).subject['header:x-tenant'];
    const results = await Promise.all(limiters.map((limiter) => limiter.limit(subject)));
    const allowed = results.every(({ success }) => success);
    if (env.ORIGIN && allowed) {
      const { pathname, search } = new URL(request.url);
      return fetch(new Request(env.ORIGIN + pathname + search, request));
    }
    const limits = results.map(({ success, limit, remaining, reset }) => ({ success, limit, remaining, reset }));
    return Response.json({ allowed, limits }, { status: env.ORIGIN ? 429 : 200 });
  },
};

/** @param {Record<string, any>} env */
function start(env) {
  const redis = Redis.fromEnv(env);
  const windows = {
    'tenant-minute': Ratelimit.slidingWindow(100_000, '1 m'),
    'tenant-hour': Ratelimit.slidingWindow(100_000, '1 h'),
    'tenant-day': Ratelimit.slidingWindow(env.SPENT ? 1 : 100_000, '1 d'),
  };
  return Object.entries(windows).map(([name, limiter]) => new Ratelimit({ redis, limiter, prefix: `peer:${name}` }));
}
