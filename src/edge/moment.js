// Waiting for a request's moment. Its body is not touched meanwhile, and nothing of it is in the core: should that be
// restarted, the request goes on all the same.

/**
 * Waits until a moment by the isolate's clock. Where the client leaves meanwhile, the platform ends the request here.
 *
 * @param {string} held `moment LF step`
 * @returns {Promise<string>} the step
 */
export async function atMoment(held) {
  const end = held.indexOf('\n');
  const until = Number(held.slice(0, end));
  const first = until - Date.now();
  // A timer may fire before its time; a clock that is set back must not make anybody wait for longer.
  for (let left = first; left > 0 && left <= first; left = until - Date.now()) {
    await scheduler.wait(left);
  }
  return held.slice(end + 1);
}
