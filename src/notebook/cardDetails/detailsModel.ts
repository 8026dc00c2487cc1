// What an open card reads of its job while it is visible: the record, the end of the log, and its figures over time.

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { HistoryPoller } from '../../charts/historyPoller';
import type { IHistorySource } from '../../charts/historySource';
import type { IRecordOptions } from '../../jobView/jobRecord';
import { JobRecord } from '../../jobView/jobRecord';
import type { ILogSource } from '../../log/logSource';
import { LogReader } from '../../log/reader';

/** Milliseconds between two requests for figures: small pictures need no higher rate. */
const PACE = 2000;

export interface ICardDetailsOptions extends IRecordOptions {
  log: ILogSource;
  history: IHistorySource;
}

export class CardDetailsModel implements IDisposable {
  constructor(private readonly options: ICardDetailsOptions) {
    const { history, log, page } = options;
    this.record = new JobRecord(options);
    this.reader = new LogReader(log);
    this.historyPoller = new HistoryPoller({ source: history, pace: PACE });
    const onNews = (): void => this._changed.emit();
    this.record.changed.connect(onNews, this);
    this.reader.changed.connect(onNews, this);
    this.historyPoller.changed.connect(onNews, this);
    page.addEventListener('visibilitychange', this._look);
  }

  readonly record: JobRecord;
  readonly reader: LogReader;
  readonly historyPoller: HistoryPoller;

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this.options.page.removeEventListener('visibilitychange', this._look);
      this.record.dispose();
      this.reader.dispose();
      this.historyPoller.dispose();
      Signal.clearData(this);
    }
  }

  /** Set whether the open card is shown. */
  setVisible(isShown: boolean): void {
    this._isShown = isShown;
    this.record.setVisible(isShown);
    this._look();
  }

  private readonly _look = (): void => {
    if (this._isShown && this.options.page.visibilityState === 'visible') {
      this.reader.start();
      this.historyPoller.start();
    } else {
      this.reader.pause();
      this.historyPoller.stop();
    }
  };

  private readonly _changed = new Signal<this, void>(this);
  private _isShown = false;
  private _isDisposed = false;
}
