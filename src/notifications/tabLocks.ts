// The tabs of one browser among each other: whether one of them is seen, which hidden one keeps watch, and which shows a
// notification.

/** The part of `navigator.locks` that is needed here; undefined where a page may not have it. */
export type ILocks = Pick<LockManager, 'request' | 'query'> | undefined;

/** Milliseconds for which a claim holds: much longer than what one tab stores takes to reach the others. */
const CLAIM = 60_000;

/**
 * Locks go with the tab that holds them, so none is left behind by one that crashed. Chrome does not freeze a tab
 * that holds one, and one that keeps watch must not be frozen.
 */
export class TabLocks {
  constructor(
    private readonly locks: ILocks,
    key: string
  ) {
    this._seen = `${key}:seen`;
    this._watch = `${key}:watch`;
    this._claims = `${key}:claim`;
  }

  /** Say whether this tab is seen. */
  setVisible(isSeen: boolean): void {
    this._showing = this._held(this._showing, isSeen, this._seen, 'shared', () => undefined);
  }

  /** Whether some tab of this browser is seen. */
  isAnyVisible(): Promise<boolean> {
    return this._isTaken(this._seen);
  }

  /** Whether some tab of this browser has the watch. */
  isAnyWatching(): Promise<boolean> {
    return this._isTaken(this._watch);
  }

  /** Stand in line for the watch, or leave the line or the watch; one tab of a browser has it at a time. */
  watch(isWilling: boolean, begin: () => void): void {
    this._watching = this._held(this._watching, isWilling, this._watch, 'exclusive', begin);
  }

  /** Whether this tab has the watch. */
  get isWatching(): boolean {
    return this._watching?.isHeld ?? false;
  }

  /**
   * Return true in the first tab that claims `id`, and false in the others for a minute. Two visible tabs learn of the
   * same event at the same moment, before either can read what the other one stored.
   */
  claim(id: string): Promise<boolean> {
    const locks = this.locks;
    if (!locks) {
      return Promise.resolve(true);
    }
    return new Promise(resolve => {
      const held = async (lock: Lock | null): Promise<void> => {
        resolve(lock !== null);
        if (lock !== null) {
          await new Promise(release => setTimeout(release, CLAIM));
        }
      };
      locks
        .request(`${this._claims}:${id}`, { ifAvailable: true }, held)
        // A page that may have no locks says so here. A second notification is better than none.
        .catch(() => resolve(true));
    });
  }

  private async _isTaken(name: string): Promise<boolean> {
    const held = (await this.locks?.query())?.held ?? [];
    return held.some(lock => lock.name === name);
  }

  private _held(
    now: HeldLock | null,
    isWanted: boolean,
    name: string,
    mode: LockMode,
    onHeld: () => void
  ): HeldLock | null {
    if (isWanted === (now !== null)) {
      return now;
    }
    now?.dispose();
    return isWanted ? new HeldLock(this.locks, name, mode, onHeld) : null;
  }

  private readonly _seen: string;
  private readonly _watch: string;
  private readonly _claims: string;
  private _showing: HeldLock | null = null;
  private _watching: HeldLock | null = null;
}

/** One lock, from the wish for it until it is given back. */
class HeldLock {
  constructor(locks: ILocks, name: string, mode: LockMode, onHeld: () => void) {
    const held = async (): Promise<void> => {
      this._isHeld = !this._isOver;
      if (this._isHeld) {
        onHeld();
      }
      await this._end;
    };
    const { signal } = this._wish;
    // Without locks every tab is alone.
    (locks?.request(name, { mode, signal }, held) ?? Promise.resolve().then(held))
      // It was given up before it was granted.
      .catch(() => undefined);
  }

  get isHeld(): boolean {
    return this._isHeld;
  }

  dispose(): void {
    this._isHeld = false;
    this._isOver = true;
    this._wish.abort();
    this._release();
  }

  private _isHeld = false;
  private _isOver = false;
  private readonly _wish = new AbortController();
  private _release: () => void = () => undefined;
  private readonly _end = new Promise<void>(resolve => {
    this._release = resolve;
  });
}
