// A React widget that follows the model, and the seconds while it is seen.

import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';

import type { IJobsModel } from './tokens';

/** Milliseconds between two looks at the clock. */
const TICK_MS = 1000;

/**
 * Renders when the model changed and, while it is visible in a visible tab, once a second.
 */
export abstract class LiveWidget extends ReactWidget {
  constructor(protected readonly model: IJobsModel) {
    super();
    model.changed.connect(this._onChanged, this);
  }

  dispose(): void {
    this._stopClock();
    super.dispose();
  }

  /** Say whether something on it changes with time alone. */
  protected abstract isTicking(): boolean;

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._startClock();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.update();
    this._startClock();
  }

  protected onBeforeHide(msg: Message): void {
    this._stopClock();
    super.onBeforeHide(msg);
  }

  protected onBeforeDetach(msg: Message): void {
    this._stopClock();
    super.onBeforeDetach(msg);
  }

  private _onChanged(): void {
    this.update();
  }

  private _startClock(): void {
    this._stopClock();
    this._timer = setInterval(() => {
      if (this.isVisible && !document.hidden && this.isTicking()) {
        this.update();
      }
    }, TICK_MS);
  }

  private _stopClock(): void {
    clearInterval(this._timer);
  }

  private _timer: ReturnType<typeof setInterval> | undefined;
}
