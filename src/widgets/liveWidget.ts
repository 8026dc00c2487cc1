// Widgets that follow the model, and the seconds while they are seen.

import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';

import type { IJobsModel } from '../tokens';

/** Milliseconds between two looks at the clock. */
const TICK_MS = 1000;

/**
 * Has a widget drawn once a second while it is seen in a visible tab and something on it changes with time alone.
 */
export function updateEverySecond(widget: Widget, isTicking: () => boolean): void {
  let timer: ReturnType<typeof setInterval> | undefined;
  const look = (): void => {
    if (widget.isVisible && !document.hidden && isTicking()) {
      widget.update();
    }
  };
  // A widget that is disposed is detached before.
  MessageLoop.installMessageHook(widget, (_, { type }) => {
    if (type === 'before-hide' || type === 'before-detach') {
      clearInterval(timer);
    } else if (type === 'after-attach' || type === 'after-show') {
      clearInterval(timer);
      timer = setInterval(look, TICK_MS);
    }
    return true;
  });
}

/**
 * Renders when the model changed, and with the seconds.
 */
export abstract class LiveWidget extends ReactWidget {
  constructor(protected readonly model: IJobsModel) {
    super();
    model.changed.connect(this._onChanged, this);
    updateEverySecond(this, () => this.isTicking());
  }

  /** Say whether something on it changes with time alone. */
  protected abstract isTicking(): boolean;

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.update();
  }

  private _onChanged(): void {
    this.update();
  }
}
