// The question two minutes before a warm pool ends: which pools it is due for, and that it is asked once.

import type { PoolSummary } from '../_types';

/** Seconds before a pool's end at which somebody is asked. */
export const LEAD_SECONDS = 120;

/** A pool that is kept for less than this in all is never asked about: its end is what was wanted. */
export const MIN_KEEP_ALIVE_SECONDS = 180;

/** One deadline of one pool; moved, it is another question. */
export function promptKey(pool: PoolSummary): string {
  return `${pool.id}@${Math.round(pool.expires_at ?? 0)}`;
}

/** Return true if a pool waits for a job and is kept long enough that its end is worth a message. */
export function mayAsk(pool: PoolSummary): pool is PoolSummary & { expires_at: number } {
  if (pool.state !== 'Available' || pool.expires_at === null) {
    return false;
  }
  return pool.expires_at - (pool.idle_since ?? pool.created_at) >= MIN_KEEP_ALIVE_SECONDS;
}

/** The pools about whose end somebody is to be asked now. */
export function duePools(pools: Iterable<PoolSummary>, now: number): PoolSummary[] {
  return [...pools].filter(
    pool => mayAsk(pool) && now >= pool.expires_at - LEAD_SECONDS && now < pool.expires_at
  );
}

/** Seconds until a question becomes due, or one that is due is over; null where there will be none. */
export function secondsToNextChange(pools: Iterable<PoolSummary>, now: number): number | null {
  const ends = [...pools].filter(mayAsk).map(pool => pool.expires_at - now);
  const turns = [...ends, ...ends.map(left => left - LEAD_SECONDS)].filter(left => left > 0);
  return turns.length > 0 ? Math.min(...turns) : null;
}
