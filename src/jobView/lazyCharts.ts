// The Charts tab of a job, which loads the charts when it is shown for the first time.

import type { Message } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';
import { Panel } from '@lumino/widgets';

import type * as Charts from '../charts';
import { loadNoticeWidget } from '../components/loadNotice';
import type { IJobViewContext } from './context';

export class LazyCharts extends Panel {
  constructor(
    private readonly context: IJobViewContext,
    private readonly loaded: () => Promise<Pick<typeof Charts, 'ChartsView'>> = () =>
      import('../charts')
  ) {
    super();
    this.title.label = context.trans.__('Charts');
    this.addClass('jp-smx-view-charts');
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._look();
  }

  private _look(): void {
    if (!this._isAsked) {
      this._isAsked = true;
      void this._load();
    }
  }

  private async _load(): Promise<void> {
    const { history, record, name, trans } = this.context;
    const charts = await this.loaded().catch(() => null);
    if (this.isDisposed) {
      return;
    }
    [...this.widgets].forEach(widget => widget.dispose());
    if (charts === null) {
      this._isAsked = false;
      this.addWidget(this._notice());
      return;
    }
    const title = record.summary?.name ?? name;
    this.addWidget(new charts.ChartsView({ source: history, name: title, page: document, trans }));
  }

  private _notice(): Widget {
    const { trans } = this.context;
    return loadNoticeWidget({
      failure: trans.__('Cannot load the charts.'),
      trans,
      onRetry: () => this._look()
    });
  }

  private _isAsked = false;
}
