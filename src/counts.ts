// When the tasks of an array are counted anew: at once where nothing is known of it, else once a second at most.

import { ApiError } from './errors';

/** Milliseconds between two counts while tasks begin and end. */
const PAUSE_MS = 1000;

/**
 * Notes which arrays changed, and has them counted while somebody looks.
 */
export class Counts {
  constructor(
    private readonly count: (id: string) => Promise<void>,
    private readonly page: Pick<Document, 'visibilityState'>
  ) {}

  dispose(): void {
    clearTimeout(this._timer);
    this._wanted.clear();
  }

  /** Say that tasks of an array changed. */
  want(id: string, isKnown: boolean): void {
    this._wanted.add(id);
    if (!isKnown) {
      void this._go();
    } else if (this._timer === undefined) {
      this._timer = setTimeout(() => void this._go(), PAUSE_MS);
    }
  }

  /** Count what changed while nobody looked. */
  look(): void {
    if (this._wanted.size > 0) {
      void this._go();
    }
  }

  private async _go(): Promise<void> {
    clearTimeout(this._timer);
    this._timer = undefined;
    if (this.page.visibilityState !== 'visible') {
      return;
    }
    const ids = [...this._wanted];
    this._wanted.clear();
    await Promise.all(ids.map(id => this.count(id).catch(reason => this._again(id, reason))));
  }

  /** No further change may come that would ask for it. */
  private _again(id: string, reason: unknown): void {
    if (!(reason instanceof ApiError && reason.status === 404)) {
      this.want(id, true);
    }
  }

  private readonly _wanted = new Set<string>();
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
