// The record of one job: read again when the job changes, and only while its view is visible.

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { JobSummary } from '../_types';
import type { IRequestFailure } from '../api/errors';
import { classifyFailure } from '../api/errors';
import type { IPageVisibility } from '../api/pageVisibility';
import { retryDelay } from '../api/poller';
import { plainJob } from '../state/plainRecords';
import type { IState } from '../state/state';
import { isFinal } from '../state/state';
import type { IJobsModel } from '../tokens';
import type { IJobRecord, IJobSource, IPlaces } from './jobSource';
import { recordErrorKind } from './recordError';

/** The server's status if its controller does not answer. */
const NO_ANSWER = 503;

export interface IRecordOptions {
  id: string;
  model: IJobsModel;
  source: Pick<IJobSource, 'record' | 'places'>;
  page: IPageVisibility;
  /** From 0 to 1; spreads the retries of several pages. */
  random: () => number;
}

export class JobRecord implements IDisposable {
  constructor(private readonly options: IRecordOptions) {
    const { model, page } = options;
    this._mark = markOf(this.listed);
    this._connectionStatus = model.state.connectionStatus;
    model.changed.connect(this._onModel, this);
    page.addEventListener('visibilitychange', this._onPage);
  }

  /** The record as read last; it stays when the job is deleted. */
  get job(): IJobRecord | null {
    return this._job;
  }

  get places(): IPlaces {
    return this._places;
  }

  /** Why the last request failed; null if it succeeded. */
  get failure(): IRequestFailure | null {
    return this._failure;
  }

  /** The newest summary of the job on this page. */
  get summary(): JobSummary | null {
    const summary = this._job?.summary;
    return this.listed ?? (summary ? plainJob(summary) : null);
  }

  /** Whether the job is known and has no verdict. */
  get isLive(): boolean {
    return this.summary !== null && !isFinal(this.summary);
  }

  get id(): string {
    return this.options.id;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      clearTimeout(this._retry);
      this.options.page.removeEventListener('visibilitychange', this._onPage);
      Signal.clearData(this);
    }
  }

  /** Set whether the view is shown; changes in the meantime are read when it is shown. */
  setVisible(isSeen: boolean): void {
    this._isSeen = isSeen;
    // No event announces that a job was deleted elsewhere, so read once when the view is shown again.
    this._isStale ||= isSeen;
    this._look();
  }

  refresh(): void {
    this._isStale = true;
    this._look();
  }

  private get listed(): JobSummary | undefined {
    return this.options.model.state.jobs.get(this.options.id);
  }

  private readonly _onPage = (): void => {
    if (this.options.page.visibilityState === 'visible' && this._isSeen) {
      this.refresh();
    }
  };

  private _onModel(_: IJobsModel, { connectionStatus }: IState): void {
    const mark = markOf(this.listed);
    const isBack =
      connectionStatus === 'ready' && this._connectionStatus !== 'ready' && this._failure !== null;
    this._isStale ||= isBack || mark !== this._mark;
    this._mark = mark;
    this._connectionStatus = connectionStatus;
    this._look();
  }

  private _look(): void {
    const { page } = this.options;
    const isSeen = this._isSeen && page.visibilityState === 'visible';
    if (isSeen && this._isStale && !this._isReading && !this._isDisposed) {
      void this._read();
    }
  }

  private async _read(): Promise<void> {
    clearTimeout(this._retry);
    const { source } = this.options;
    this._isReading = true;
    this._isStale = false;
    try {
      // Some rows need the places of files only for a button; without places they have none.
      const places = source.places().catch(() => this._places);
      [this._job, this._places] = await Promise.all([source.record(), places]);
      this._failure = null;
      this._failures = 0;
    } catch (reason) {
      this._failure = classifyFailure(reason);
      this._tryLater(this._failure);
      if (this._failure.status === NO_ANSWER) {
        // No event announces that the controller has exited: only a request for the lists shows it.
        void this.options.model.refresh();
      }
    }
    this._isReading = false;
    if (!this._isDisposed) {
      this._changed.emit();
      this._look();
    }
  }

  private _tryLater(failure: IRequestFailure): void {
    this._failures += 1;
    if (!this._isDisposed && recordErrorKind(failure, this._connectionStatus) === 'failing') {
      const pause = retryDelay(this._failures, failure, this.options.random());
      this._retry = setTimeout(() => this.refresh(), pause);
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _job: IJobRecord | null = null;
  private _places: IPlaces = {};
  private _failure: IRequestFailure | null = null;
  private _failures = 0;
  private _mark: string;
  private _connectionStatus: IState['connectionStatus'];
  private _isSeen = false;
  private _isStale = true;
  private _isReading = false;
  private _isDisposed = false;
  private _retry: ReturnType<typeof setTimeout> | undefined;
}

/** Return the parts of a summary that show that the record changed; progress comes each second and is left out. */
function markOf(job: JobSummary | undefined): string {
  return job
    ? [job.secondary_status, job.attempt, job.pool, job.start, job.warm_pool_status].join(' ')
    : '';
}
