// Toasts about jobs that ended: one for each, one for all if many end in a row, one for all failures.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary } from '../_types';
import { formatEnded, formatEndedWhileAway, toastType } from './messages';

/** More jobs than this in one series of ends share one toast. */
const BATCH = 3;

/** Seconds without an end after which a new series begins. */
const PAUSE = 10;

/** Milliseconds that a toast stays: one without an offer, and one with an offer. */
const SHORT = 5000;
const LONG = 15_000;

/** Milliseconds that the toast of failures stays; its entry in the notification center stays until it is dismissed. */
const FAILURE = 60_000;

/** Buttons that fit on one line of a toast. */
const MOST_ACTIONS = 2;

export type IAction = Notification.IAction;

export interface IJobToastsOptions {
  trans: TranslationBundle;
  /** Seconds of any clock. */
  clock: () => number;
  /** Return the actions on these jobs. */
  actionsFor: (jobs: readonly JobSummary[]) => IAction[];
  /** Return an action to offer once beside them; null after that. */
  offer: () => IAction | null;
}

export class JobToasts {
  constructor(private readonly options: IJobToastsOptions) {}

  /** Show that jobs ended just now. */
  showEnded(jobs: readonly JobSummary[]): void {
    const failed = jobs.filter(job => job.status === 'Failed');
    const others = jobs.filter(job => job.status !== 'Failed');
    if (others.length > 0) {
      this._showInRun(others);
    }
    if (failed.length > 0) {
      this._showFailed(failed);
    }
  }

  /** Show in one entry which jobs ended while the page was hidden or closed. */
  showEndedWhileAway(jobs: readonly JobSummary[], isPart: boolean): void {
    this._emit(formatEndedWhileAway(jobs, isPart, this.options.trans), jobs);
  }

  /** Replace the entry about failures of the last minute, unless a user dismissed it, by one that also counts these. */
  private _showFailed(jobs: readonly JobSummary[]): void {
    const now = this.options.clock();
    const isRecent = now - this._failedAt <= FAILURE / 1000;
    const isOpen = isRecent && this._failure !== '' && Notification.manager.has(this._failure);
    this._failedAt = now;
    this._failed = isOpen ? [...this._failed, ...jobs] : [...jobs];
    if (isOpen) {
      // An update of an entry whose toast is gone shows no toast.
      Notification.dismiss(this._failure);
    }
    this._failure = this._say(this._failed);
  }

  private _showInRun(jobs: readonly JobSummary[]): void {
    const now = this.options.clock();
    if (now - this._last > PAUSE) {
      this._run = [];
      this._shown = [];
      this._offered = null;
    }
    this._last = now;
    this._run.push(...jobs);
    if (this._run.length <= BATCH) {
      this._shown.push(...jobs.map(job => this._say([job])));
    } else {
      this._gather();
    }
  }

  private _gather(): void {
    const sentence = formatEnded(this._run, this.options.trans);
    this._offered ??= this._offer();
    const looks = this._looksOf(this._run, this._offered);
    const [only] = this._shown;
    if (this._shown.length === 1 && Notification.manager.has(only)) {
      Notification.update({ id: only, message: sentence, type: toastType(this._run), ...looks });
      return;
    }
    // Without an id all notifications would be dismissed, also those of other extensions.
    this._shown.filter(id => id !== '').forEach(id => Notification.dismiss(id));
    this._shown = [Notification.emit(sentence, toastType(this._run), looks)];
  }

  private _say(jobs: readonly JobSummary[]): string {
    return this._emit(formatEnded(jobs, this.options.trans), jobs);
  }

  private _emit(sentence: string, jobs: readonly JobSummary[]): string {
    const offer = this._offer();
    this._offered ??= offer;
    return Notification.emit(sentence, toastType(jobs), this._looksOf(jobs, offer));
  }

  /** Return the offered action; once the user chooses it, it is not offered again. */
  private _offer(): IAction | null {
    const offer = this.options.offer();
    const callback: IAction['callback'] = event => {
      this._offered = null;
      offer?.callback(event);
    };
    return offer && { ...offer, callback };
  }

  private _looksOf(
    jobs: readonly JobSummary[],
    offer: IAction | null
  ): { autoClose: number; actions: IAction[] } {
    const actions = this.options.actionsFor(jobs);
    return {
      autoClose: this._staysFor(jobs, offer !== null),
      actions: offer ? [...actions.slice(0, MOST_ACTIONS - 1), offer] : actions
    };
  }

  private _staysFor(jobs: readonly JobSummary[], isLong: boolean): number {
    if (jobs.some(job => job.status === 'Failed')) {
      return FAILURE;
    }
    return isLong ? LONG : SHORT;
  }

  private _run: JobSummary[] = [];
  private _shown: string[] = [];
  /** The entry about failures, and the jobs that it counts. */
  private _failure = '';
  private _failedAt = Number.NEGATIVE_INFINITY;
  private _failed: JobSummary[] = [];
  /** What a toast of the series offered; the toast that replaces it offers the same. */
  private _offered: IAction | null = null;
  private _last = Number.NEGATIVE_INFINITY;
}
