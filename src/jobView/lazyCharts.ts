// The Charts tab of a job, which loads the charts when it is shown for the first time.

import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Panel } from '@lumino/widgets';
import React from 'react';

import type * as Charts from '../charts';
import { TextButton } from '../components/textButton';
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
      // The server was away, or has another version of us by now.
      this._isAsked = false;
      this.addWidget(this._notice());
      return;
    }
    const title = record.summary?.name ?? name;
    this.addWidget(new charts.ChartsView({ source: history, name: title, page: document, trans }));
  }

  private _notice(): ReactWidget {
    const { trans } = this.context;
    const words = trans.__(
      'Cannot load the charts. Try again when the server is reachable. If that does not help, reload the page.'
    );
    return ReactWidget.create(
      <div className="jp-smx-notice" role="alert">
        <p>{words}</p>
        <TextButton label={trans.__('Try again')} onClick={() => this._look()} />
      </div>
    );
  }

  private _isAsked = false;
}
