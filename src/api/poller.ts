// Schedules requests to the server: only while the page is visible, later after each failure, one at a time.

import type { IDisposable } from '@lumino/disposable';

import type { IRequestFailure } from './errors';

/**
 * Mean milliseconds between two polls of a server that answers, while changes are due and while none are. Polling finds
 * what no event announced because the connection to the event bus was lost, or because a proxy blocks it.
 *
 * The server sends messages about changes that no page requested within 45 s, so that the longest pause is below that.
 */
const BUSY_INTERVAL_MS = 4_000;
const IDLE_INTERVAL_MS = 30_000;

/** Milliseconds after the first failure, and at most, about. */
const RETRY_RANGE_MS: readonly [number, number] = [2000, 30_000];

/** The same for failures that a user must end: log in, install the server half, or grant a permission. */
const SLOW_RETRY_RANGE_MS: readonly [number, number] = [30_000, 300_000];

const SLOW_RETRY_KINDS: ReadonlySet<IRequestFailure['kind']> = new Set<IRequestFailure['kind']>([
  'loggedOut',
  'forbidden',
  'missing'
]);

/**
 * Return the milliseconds until the next try after `failures` failures in a row. `random` (0 to 1) spreads the pages.
 */
export function retryDelay(failures: number, failure: IRequestFailure, random: number): number {
  const [first, most] = SLOW_RETRY_KINDS.has(failure.kind) ? SLOW_RETRY_RANGE_MS : RETRY_RANGE_MS;
  const whole = Math.min(first * 2 ** (failures - 1), most);
  return withJitter(
    Math.max(whole, Math.min(failure.retryAfter * 1000, SLOW_RETRY_RANGE_MS[1])),
    random
  );
}

/** Return the milliseconds until the next poll of a server that answers; `isBusy` says that changes are due. */
export function pollInterval(isBusy: boolean, random: number): number {
  return withJitter(isBusy ? BUSY_INTERVAL_MS : IDLE_INTERVAL_MS, random);
}

/** Return 75 % to 125 % of a pause, so that pages do not poll at the same moment. */
function withJitter(pause: number, random: number): number {
  return pause * (0.75 + random / 2);
}

/** Return true if an event is a reason to poll now: after a failure few are, unless a hidden page cannot poll. */
export function shouldPollOnEvent(
  failure: IRequestFailure | null,
  kind: unknown,
  isHidden: boolean
): boolean {
  if (failure === null || failure.kind === 'lost') {
    return true;
  }
  return (kind === 'reset' || isHidden) && !SLOW_RETRY_KINDS.has(failure.kind);
}

export interface IPollerOptions {
  /** Says whether the page is visible. */
  page: Pick<Document, 'visibilityState'>;
  random: () => number;
  /** Return true while changes are due, as those of a running job. */
  isBusy: () => boolean;
  /** Send the request. */
  poll: () => void;
}

export class Poller implements IDisposable {
  constructor(private readonly options: IPollerOptions) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
  }

  /** Note a good answer: poll again after the interval. */
  recordSuccess(): void {
    this._failures = 0;
    this._plan(pollInterval(this.options.isBusy(), this.options.random()));
  }

  /** Note a failed request: poll again after a longer pause. */
  recordFailure(failure: IRequestFailure): void {
    this._failures += 1;
    this._plan(retryDelay(this._failures, failure, this.options.random()));
  }

  private _plan(pause: number): void {
    clearTimeout(this._timer);
    if (this._isDisposed) {
      return;
    }
    this._timer = setTimeout(() => {
      // Skip hidden pages: they poll when they become visible.
      if (this.options.page.visibilityState === 'visible') {
        this.options.poll();
      }
    }, pause);
  }

  private _failures = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}
