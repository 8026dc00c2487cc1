// When to count the tasks of an array again: at once if no count is known, else at most once a second.

import type { IRequestFailure } from '../api/errors';
import { classifyFailure } from '../api/errors';
import { retryDelay } from '../api/poller';

/** Milliseconds between two counts while tasks begin and end. */
const PAUSE_MS = 1000;

/**
 * Notes which arrays changed, and has them counted while the page is visible.
 */
export class ArrayCounter {
  constructor(
    private readonly count: (id: string) => Promise<void>,
    private readonly page: Pick<Document, 'visibilityState'>,
    private readonly random: () => number
  ) {}

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
  }

  /** Note that tasks of an array changed. */
  markChanged(id: string, isKnown: boolean): void {
    this._pending.add(id);
    if (!isKnown) {
      void this._go();
    } else if (this._timer === undefined) {
      this._plan(PAUSE_MS);
    }
  }

  /** Count what changed while the page was hidden. */
  countPending(): void {
    if (this._pending.size > 0) {
      void this._go();
    }
  }

  private async _go(): Promise<void> {
    clearTimeout(this._timer);
    this._timer = undefined;
    // One request at a time: of two, the older answer may arrive last and replace the newer one.
    if (this.page.visibilityState !== 'visible' || this._isDisposed || this._isCounting) {
      return;
    }
    this._isCounting = true;
    const ids = [...this._pending];
    this._pending.clear();
    const tried = await Promise.all(ids.map(id => this._countOne(id)));
    this._isCounting = false;
    const failure = tried.find(one => one !== null);
    this._failures = failure ? this._failures + 1 : 0;
    if (failure) {
      this._plan(retryDelay(this._failures, failure, this.random()));
    } else if (this._pending.size > 0) {
      this._plan(PAUSE_MS);
    }
  }

  /** Count one array. Return the failure if a retry may help: no further change may come that would start one. */
  private async _countOne(id: string): Promise<IRequestFailure | null> {
    try {
      await this.count(id);
      return null;
    } catch (reason) {
      const failure = classifyFailure(reason);
      if (failure.kind === 'gone') {
        return null;
      }
      this._pending.add(id);
      return failure;
    }
  }

  private _plan(pause: number): void {
    clearTimeout(this._timer);
    this._timer = this._isDisposed ? undefined : setTimeout(() => void this._go(), pause);
  }

  private readonly _pending = new Set<string>();
  private _failures = 0;
  private _isCounting = false;
  private _isDisposed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
