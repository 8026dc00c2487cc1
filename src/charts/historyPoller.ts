// Keeps a history up to date while the charts are visible: about once a second, until the job has ended.

import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { classifyFailure } from '../api/errors';
import { sleep } from '../api/sleep';
import { History } from './history';
import type { IHistorySource } from './historySource';

export interface IHistoryPollerOptions {
  source: IHistorySource;
  /** Milliseconds between two questions while something new comes. */
  pace: number;
}

/** Milliseconds between two questions when nothing new comes, or when none is answered. */
const [SLOWEST, SLOWEST_AFTER_FAILURE] = [5_000, 15_000];
const SLOWER = 1.5;

export class HistoryPoller {
  readonly history = new History();
  /** Which run is looked at; 0 is the newest one, whichever that is. */
  attempt = 0;
  /** Why the last question was not answered; empty when it was. */
  failure = '';
  /** Nothing more will come: the job has its verdict, and what came with it is here. */
  isOver = false;
  /** The job was deleted; what came before is still here. */
  isGone = false;

  constructor(private readonly options: IHistoryPollerOptions) {}

  /** Emitted after each answer and each failure. */
  get changed(): ISignal<HistoryPoller, void> {
    return this._changed;
  }

  start(): void {
    if (this._question === null && !this.isOver && !this.isGone) {
      this._question = new AbortController();
      void this._follow(this._question);
    }
  }

  stop(): void {
    this._question?.abort();
    this._question = null;
  }

  /** Look at another run of the job, from when it is started again. */
  choose(attempt: number): void {
    this.stop();
    this.attempt = attempt;
    this.isOver = this._isLast = false;
    this.history.clear();
  }

  dispose(): void {
    this.stop();
    Signal.clearData(this);
  }

  private async _follow(question: AbortController): Promise<void> {
    const { signal } = question;
    let pause = this.options.pace;
    while (!signal.aborted && !this.isOver && !this.isGone) {
      pause = await this._turn(signal, pause);
      if (!signal.aborted) {
        this._changed.emit();
        await sleep(pause, signal);
      }
    }
    if (this._question === question) {
      this._question = null;
    }
  }

  /** Ask once and take in what is said; gives the milliseconds until the next time. */
  private async _turn(signal: AbortSignal, pause: number): Promise<number> {
    const { pace } = this.options;
    try {
      const isNew = await this._ask(signal);
      this.failure = '';
      return isNew ? pace : Math.max(pace, Math.min(SLOWEST, pause * SLOWER));
    } catch (reason) {
      if (!signal.aborted) {
        const { kind, message } = classifyFailure(reason);
        this.failure = message;
        this.isGone = kind === 'gone';
      }
      return Math.min(SLOWEST_AFTER_FAILURE, pause * 2);
    }
  }

  /** Ask once; says whether something new came. */
  private async _ask(signal: AbortSignal): Promise<boolean> {
    const { source } = this.options;
    const [ofUsage, ofMetrics] = [this.history.usageSince, this.history.metricsSince].map(
      since => ({ since: this._isLast ? 0 : since, attempt: this.attempt })
    );
    const [usage, metrics] = await Promise.all([
      source.usage(ofUsage, signal),
      source.metrics(ofMetrics, signal)
    ]);
    if (signal.aborted) {
      return false;
    }
    const { attempt } = this.history;
    if (attempt !== null && (usage.attempt !== attempt || metrics.attempt !== attempt)) {
      // The job began again. Of this run only what came after the last moment of the other one was asked for.
      this.history.clear();
      return true;
    }
    const isNew = [
      this.history.addUsage(usage, ofUsage.since),
      this.history.addMetrics(metrics, ofMetrics.since)
    ].includes(true);
    // What the server kept of a run that is over is read once more as a whole: that is what anybody else sees of it.
    this._isLast = usage.is_final && metrics.is_final;
    this.isOver = this._isLast && ofUsage.since + ofMetrics.since === 0;
    return isNew || this._isLast;
  }

  private readonly _changed = new Signal<this, void>(this);
  private _question: AbortController | null = null;
  private _isLast = false;
}
