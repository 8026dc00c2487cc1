// The place of a job's charts, which are loaded when somebody looks at it for the first time.

import type { Message } from '@lumino/messaging';
import { Panel } from '@lumino/widgets';

import type { IViewContext } from './context';

export class ChartsSlot extends Panel {
  constructor(private readonly context: IViewContext) {
    super();
    this.title.label = context.trans.__('Charts');
    this.addClass('jp-smx-view-charts');
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    if (!this._isAsked) {
      this._isAsked = true;
      void this._load();
    }
  }

  private async _load(): Promise<void> {
    const { history, record, name, trans } = this.context;
    const { ChartsView } = await import('../charts');
    if (!this.isDisposed) {
      const title = record.summary?.name ?? name;
      this.addWidget(new ChartsView({ source: history, name: title, page: document, trans }));
    }
  }

  private _isAsked = false;
}
