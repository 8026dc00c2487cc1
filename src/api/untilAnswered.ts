// Repeats a request that is safe to repeat until its answer arrives.

import { isProxyTimeout, isResponseLost } from './errors';
import { sleep } from './sleep';

/** Tries at most of a request that a proxy ends: a controller starts within a few of them. */
const PROXY_TRIES = 10;
const TRIES = 2;
/** Tries at most of a request that is refused at once: the proxy does not reach the server. */
const QUICK_TRIES = 4;
/** Milliseconds that a request lasts at least before its end counts as a read timeout. */
const SHORTEST_TIMEOUT = 1_000;
/** Milliseconds before the request that follows the first quick failure; each time twice as long. */
const PAUSE = 500;

/** A clock in milliseconds, and a wait on it. */
export interface IClock {
  now(): number;
  sleep(milliseconds: number): Promise<void>;
}

const CLOCK: IClock = {
  now: () => performance.now(),
  sleep: milliseconds => sleep(milliseconds, new AbortController().signal)
};

/**
 * Send a request, and send it again if its answer was lost. A read timeout of a proxy is shorter than the start of a
 * controller may be, so that one is repeated more often. After a failure that came at once, wait first.
 */
export async function untilAnswered<T>(send: () => Promise<T>, clock = CLOCK): Promise<T> {
  let quick = 0;
  for (let tries = 1; ; tries++) {
    const begun = clock.now();
    try {
      return await send();
    } catch (reason) {
      const isQuick = clock.now() - begun < SHORTEST_TIMEOUT;
      quick += isQuick ? 1 : 0;
      const most = isProxyTimeout(reason) ? PROXY_TRIES : TRIES;
      if (!isResponseLost(reason) || tries >= most || quick >= QUICK_TRIES) {
        throw reason;
      }
      if (isQuick) {
        await clock.sleep(PAUSE * 2 ** (quick - 1));
      }
    }
  }
}
