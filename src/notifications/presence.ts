// Whether this tab is visible, and when the user or the machine comes back.

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { IPageVisibility } from '../api/pageVisibility';

/** Milliseconds between two looks at the clock while the tab is visible. */
const TICK = 10_000;

/** Milliseconds by which a look may be late before it means that the machine or the tab slept. */
const SLEPT = 20_000;

/** The part of `window` that is needed here. */
export type INetworkEvents = Pick<Window, 'addEventListener' | 'removeEventListener'>;

export class Presence implements IDisposable {
  constructor(
    private readonly page: IPageVisibility,
    private readonly network: INetworkEvents,
    private readonly clock: () => number
  ) {
    page.addEventListener('visibilitychange', this._onVisibility);
    network.addEventListener('online', this._onWake);
    this._watchClock();
  }

  get isVisible(): boolean {
    return this.page.visibilityState === 'visible';
  }

  /** Emitted when the tab is shown (true) or hidden (false). */
  get turned(): ISignal<this, boolean> {
    return this._turned;
  }

  /** Emitted when a tab that stayed visible was cut off for a while: nothing else says that news were missed. */
  get woke(): ISignal<this, void> {
    return this._woke;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearInterval(this._timer);
    this.page.removeEventListener('visibilitychange', this._onVisibility);
    this.network.removeEventListener('online', this._onWake);
    Signal.clearData(this);
  }

  private readonly _onVisibility = (): void => {
    this._watchClock();
    this._turned.emit(this.isVisible);
  };

  private readonly _onWake = (): void => {
    if (this.isVisible) {
      this._woke.emit();
    }
  };

  private _watchClock(): void {
    clearInterval(this._timer);
    if (!this.isVisible) {
      return;
    }
    let last = this.clock();
    this._timer = setInterval(() => {
      const now = this.clock();
      const isLate = now - last > TICK + SLEPT;
      last = now;
      if (isLate) {
        this._onWake();
      }
    }, TICK);
  }

  private _timer: ReturnType<typeof setInterval> | undefined;
  private _isDisposed = false;
  private readonly _turned = new Signal<this, boolean>(this);
  private readonly _woke = new Signal<this, void>(this);
}
