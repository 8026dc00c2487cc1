// When a page asks the server again by itself: only while somebody looks, later after each failure, and no two at once.

import type { IDisposable } from '@lumino/disposable';

import type { ITrouble } from './errors';

/**
 * Milliseconds between two looks at a server that answers, about, with a controller or without one: that the line to the
 * event bus was lost, and what was said on it meanwhile, nobody announces.
 */
const BEAT_MS = 20_000;

/** Milliseconds after the first failure, and at most, about. */
const SOON: readonly [number, number] = [2000, 30_000];

/** Of what does not go away by itself: somebody has to log in, to install or to give a right. */
const LATE: readonly [number, number] = [30_000, 300_000];

const PATIENT: ReadonlySet<ITrouble['kind']> = new Set<ITrouble['kind']>([
  'loggedOut',
  'forbidden',
  'missing'
]);

/**
 * Milliseconds until the next try after so many failures in a row; `random` (0 to 1) keeps pages apart.
 */
export function pauseAfter(failures: number, trouble: ITrouble, random: number): number {
  const [first, most] = PATIENT.has(trouble.kind) ? LATE : SOON;
  const whole = Math.min(first * 2 ** (failures - 1), most);
  return apart(Math.max(whole, Math.min(trouble.retryAfter * 1000, LATE[1])), random);
}

/** Milliseconds until the next look at a server that answers. */
export function beat(random: number): number {
  return apart(BEAT_MS, random);
}

/** Three quarters of a pause up to five quarters of it. */
function apart(pause: number, random: number): number {
  return pause * (0.75 + random / 2);
}

/**
 * Whether a word on the event bus is a reason to ask, in spite of trouble; many may come in a second.
 */
export function isReason(trouble: ITrouble | null, kind: unknown): boolean {
  if (trouble === null || trouble.kind === 'lost') {
    return true;
  }
  return kind === 'reset' && !PATIENT.has(trouble.kind);
}

export interface IPulseOptions {
  /** Says whether anybody looks. */
  page: Pick<Document, 'visibilityState'>;
  random: () => number;
  /** Ask the server. */
  ask: () => void;
}

export class Pulse implements IDisposable {
  constructor(private readonly options: IPulseOptions) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
  }

  /** The server answered: look again after a while. */
  answered(): void {
    this._failures = 0;
    this._plan(beat(this.options.random()));
  }

  /** It did not, or not well. */
  failed(trouble: ITrouble): void {
    this._failures += 1;
    this._plan(pauseAfter(this._failures, trouble, this.options.random()));
  }

  private _plan(pause: number): void {
    clearTimeout(this._timer);
    if (this._isDisposed) {
      return;
    }
    this._timer = setTimeout(() => {
      // Whoever comes back to the tab asks anyway.
      if (this.options.page.visibilityState === 'visible') {
        this.options.ask();
      }
    }, pause);
  }

  private _failures = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}
