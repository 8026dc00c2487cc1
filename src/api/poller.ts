// When a page asks the server again by itself: only while somebody looks, later after each failure, and no two at once.

import type { IDisposable } from '@lumino/disposable';

import type { IRequestFailure } from './errors';

/**
 * Milliseconds between two looks at a server that answers, about, with a controller or without one: that the line to the
 * event bus was lost, and what was said on it meanwhile, nobody announces.
 */
const POLL_INTERVAL_MS = 20_000;

/** Milliseconds after the first failure, and at most, about. */
const RETRY_RANGE_MS: readonly [number, number] = [2000, 30_000];

/** Of what does not go away by itself: somebody has to log in, to install or to give a right. */
const SLOW_RETRY_RANGE_MS: readonly [number, number] = [30_000, 300_000];

const SLOW_RETRY_KINDS: ReadonlySet<IRequestFailure['kind']> = new Set<IRequestFailure['kind']>([
  'loggedOut',
  'forbidden',
  'missing'
]);

/**
 * Milliseconds until the next try after so many failures in a row; `random` (0 to 1) keeps pages apart.
 */
export function retryDelay(failures: number, failure: IRequestFailure, random: number): number {
  const [first, most] = SLOW_RETRY_KINDS.has(failure.kind) ? SLOW_RETRY_RANGE_MS : RETRY_RANGE_MS;
  const whole = Math.min(first * 2 ** (failures - 1), most);
  return withJitter(
    Math.max(whole, Math.min(failure.retryAfter * 1000, SLOW_RETRY_RANGE_MS[1])),
    random
  );
}

/** Milliseconds until the next look at a server that answers. */
export function pollInterval(random: number): number {
  return withJitter(POLL_INTERVAL_MS, random);
}

/** Three quarters of a pause up to five quarters of it. */
function withJitter(pause: number, random: number): number {
  return pause * (0.75 + random / 2);
}

/**
 * Whether a word on the event bus is a reason to ask, in spite of trouble; many may come in a second.
 */
export function shouldPollOnEvent(failure: IRequestFailure | null, kind: unknown): boolean {
  if (failure === null || failure.kind === 'lost') {
    return true;
  }
  return kind === 'reset' && !SLOW_RETRY_KINDS.has(failure.kind);
}

export interface IPollerOptions {
  /** Says whether anybody looks. */
  page: Pick<Document, 'visibilityState'>;
  random: () => number;
  /** Ask the server. */
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

  /** The server answered: look again after a while. */
  recordSuccess(): void {
    this._failures = 0;
    this._plan(pollInterval(this.options.random()));
  }

  /** It did not, or not well. */
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
      // Whoever comes back to the tab asks anyway.
      if (this.options.page.visibilityState === 'visible') {
        this.options.poll();
      }
    }, pause);
  }

  private _failures = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}
