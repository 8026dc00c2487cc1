// How long to wait for new lines behind a proxy that ends a request without an answer after some seconds.

import { isResponseLost } from '../api/errors';

/** Seconds that the server may delay an answer while there is nothing new. */
export const LONGEST_WAIT = 20;

/** Seconds that a connection lasts at least before its end counts as a read timeout; a shorter one is an outage. */
const SHORTEST_TIMEOUT = 1;

/** How much longer a wait becomes after an answer without news: a cut may have been a single one. */
const GROWTH = 1.25;

/** Return the seconds to wait next: `wait`, or more if a request that waited `waited` seconds brought no news. */
export function waitAfterAnswer(wait: number, waited: number, bytes: number): number {
  return waited > 0 && bytes === 0 ? Math.min(LONGEST_WAIT, waited * GROWTH) : wait;
}

/**
 * Return the seconds to wait next if a request that waited `wait` seconds was cut by a read timeout after `elapsed`
 * seconds; null if it failed for another reason.
 *
 * The result is always shorter than `wait`, so that repeated failures end as an outage.
 */
export function waitAfterCut(wait: number, elapsed: number, reason: unknown): number | null {
  if (wait === 0 || elapsed < SHORTEST_TIMEOUT || !isResponseLost(reason)) {
    return null;
  }
  // Half of it leaves the other half for the way to the server and back.
  const shorter = Math.floor(elapsed * 5) / 10;
  return shorter < wait ? shorter : null;
}
