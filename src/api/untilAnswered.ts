// Repeats a request that is safe to repeat until its answer arrives.

import { isProxyTimeout, isResponseLost } from './errors';

/** Tries at most of a request that a proxy ends: a controller starts within a few of them. */
const PROXY_TRIES = 10;
const TRIES = 2;

/**
 * Send a request, and send it again if its answer was lost. A read timeout of a proxy is shorter than the start of a
 * controller may be, so that one is repeated more often.
 */
export async function untilAnswered<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (reason) {
      const most = isProxyTimeout(reason) ? PROXY_TRIES : TRIES;
      if (!isResponseLost(reason) || tries >= most) {
        throw reason;
      }
    }
  }
}
