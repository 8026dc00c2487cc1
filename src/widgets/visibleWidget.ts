// A React widget that knows whether it is seen: shown, in a page that is not hidden.

import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';

import type { IPageVisibility } from '../api/pageVisibility';

/**
 * Says when it is seen and when no more; either may be said again while it is so.
 */
export abstract class VisibleWidget extends ReactWidget {
  constructor(private readonly page: IPageVisibility) {
    super();
    page.addEventListener('visibilitychange', this.updateVisibility);
  }

  dispose(): void {
    this.page.removeEventListener('visibilitychange', this.updateVisibility);
    super.dispose();
  }

  protected abstract onVisible(): void;

  protected abstract onHidden(): void;

  /** Say anew whether it is seen. */
  protected readonly updateVisibility = (): void => {
    if (this.isVisible && this.page.visibilityState === 'visible') {
      this.onVisible();
    } else {
      this.onHidden();
    }
  };

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.updateVisibility();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.updateVisibility();
  }

  protected onBeforeHide(msg: Message): void {
    this.onHidden();
    super.onBeforeHide(msg);
  }

  protected onBeforeDetach(msg: Message): void {
    this.onHidden();
    super.onBeforeDetach(msg);
  }
}
