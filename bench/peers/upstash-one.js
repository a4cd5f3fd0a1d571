// @upstash/ratelimit with one sliding window, as in the first example of its documentation. It reads the subject from
// the same body as the gateway's check.

import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis/cloudflare';

/** @type {Ratelimit | undefined} */
let limiter;

export default {
  async fetch(request, env) {
    limiter ??= new Ratelimit({
      redis: Redis.fromEnv(env),
      limiter: Ratelimit.slidingWindow(100_000, '1 m'),
      prefix: 'peer:tenant-minute',
    });
    const { subject } = await request.json();
    const { success, limit, remaining, reset } = await limiter.limit(subject['header:x-tenant']);
    return Response.json({ allowed: success, limit, remaining, reset });
  },
};
