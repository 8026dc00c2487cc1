// A React widget that knows whether it is seen: shown, in a page that is not hidden.

import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';

import type { IPage } from '../api/pageVisibility';

/**
 * Says when it is seen and when no more; either may be said again while it is so.
 */
export abstract class SeenWidget extends ReactWidget {
  constructor(private readonly page: IPage) {
    super();
    page.addEventListener('visibilitychange', this.look);
  }

  dispose(): void {
    this.page.removeEventListener('visibilitychange', this.look);
    super.dispose();
  }

  protected abstract onSeen(): void;

  protected abstract onUnseen(): void;

  /** Say anew whether it is seen. */
  protected readonly look = (): void => {
    if (this.isVisible && this.page.visibilityState === 'visible') {
      this.onSeen();
    } else {
      this.onUnseen();
    }
  };

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.look();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.look();
  }

  protected onBeforeHide(msg: Message): void {
    this.onUnseen();
    super.onBeforeHide(msg);
  }

  protected onBeforeDetach(msg: Message): void {
    this.onUnseen();
    super.onBeforeDetach(msg);
  }
}
