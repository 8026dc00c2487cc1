// The widget with the charts of a job: metrics and resource use over one time axis. Reads only while visible.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import React from 'react';

import { errorText } from '../api/errors';
import type { IPageVisibility } from '../api/pageVisibility';
import { VisibleWidget } from '../widgets/visibleWidget';
import { ChartsDashboard } from './dashboard';
import type { IHistoryPollerOptions } from './historyPoller';
import { HistoryPoller } from './historyPoller';
import type { IChartsHandle } from './openCharts';
import { openCharts } from './openCharts';
import type { IPlotProps } from './plot';
import { prefersReducedMotion } from './style';
import type { IChartsSelection, IChartsViewModel } from './viewModel';
import { buildViewModel, defaultHost } from './viewModel';
import { clampRange, rangeForKey } from './zoom';

/** Milliseconds between two polls of a running job; the second one applies if the system requests reduced motion. */
const [PACE, CALM_PACE] = [1_000, 5_000];

export interface IChartsOptions extends Omit<IHistoryPollerOptions, 'pace'> {
  /** The name of the job, as the accessible name of the charts. */
  name: string;
  page: IPageVisibility;
  trans: TranslationBundle;
  pace?: number;
}

let groups = 0;

/**
 * Follows the job while it is attached and visible in a visible page, until the verdict.
 */
export class ChartsView extends VisibleWidget implements IChartsHandle {
  constructor(private readonly options: IChartsOptions) {
    super(options.page);
    this.addClass('jp-smx-charts');
    this._poller = new HistoryPoller({
      pace: prefersReducedMotion() ? CALM_PACE : PACE,
      ...options
    });
    this._poller.changed.connect(this._onHistory, this);
    this.node.addEventListener('keydown', this._onKey);
  }

  /** True from `pause()` until `resume()`: no requests, and the drawings do not move. */
  get isPaused(): boolean {
    return this._isPaused;
  }

  dispose(): void {
    this.node.removeEventListener('keydown', this._onKey);
    openCharts.delete(this);
    this._poller.dispose();
    super.dispose();
  }

  /** Stop polling and moving; keep what is drawn. */
  pause(): void {
    this._isPaused = true;
    this._poller.stop();
    this.update();
  }

  /** Continue from where the poller stopped. */
  resume(): void {
    this._isPaused = false;
    this.updateVisibility();
    this.update();
  }

  /** Show a range of time, in seconds since the epoch; null shows all of it. */
  zoom(part: { from: number; to: number } | null): void {
    this._choose({ zoom: part });
  }

  protected onAfterAttach(msg: Message): void {
    openCharts.add(this);
    void this._load();
    super.onAfterAttach(msg);
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.update();
  }

  protected onBeforeDetach(msg: Message): void {
    openCharts.delete(this);
    super.onBeforeDetach(msg);
  }

  protected onVisible(): void {
    if (!this._isPaused) {
      this._poller.start();
    }
  }

  protected onHidden(): void {
    this._poller.stop();
  }

  protected onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    this.node.querySelector<HTMLElement>('.jp-smx-charts-area')?.focus();
  }

  protected render(): JSX.Element {
    return (
      <ChartsDashboard
        name={this.options.name}
        viewModel={this._drawn()}
        poller={this._poller}
        choice={this._choice}
        isPaused={this._isPaused}
        moment={this._moment}
        plot={this._plot}
        failure={this._failure}
        group={this._group}
        trans={this.options.trans}
        onPause={() => (this._isPaused ? this.resume() : this.pause())}
        onChoose={change => this._choose(change)}
        onAttempt={attempt => this._attempt(attempt)}
        onRetry={() => this._retry()}
        onPoint={moment => this._point(moment)}
      />
    );
  }

  private readonly _onKey = (event: KeyboardEvent): void => {
    const viewModel = this._drawn();
    const isMine = event.target instanceof Element && event.target.matches('.jp-smx-charts-area');
    if (!isMine || viewModel === null || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const part = rangeForKey(event.key, viewModel.range, this._poller.history.span);
    if (part !== undefined) {
      event.preventDefault();
      this.zoom(part);
    }
  };

  private _onHistory(): void {
    if (!this._isHostChosen && this._poller.history.span !== null) {
      this._isHostChosen = true;
      const hosts = [...new Set(this._poller.history.lines.map(line => line.host))];
      this._choice = { ...this._choice, host: defaultHost(hosts) };
    }
    if (this._poller.history.attempt === null) {
      // The job restarted, and the selected range has no data of its new run.
      this._choice = { ...this._choice, zoom: null };
    }
    this._viewModel = undefined;
    this.update();
  }

  private _choose(change: Partial<IChartsSelection>): void {
    const span = this._poller.history.span;
    const part = change.zoom ? clampRange(change.zoom, span) : change.zoom;
    this._choice = { ...this._choice, ...change, ...(part === undefined ? {} : { zoom: part }) };
    this._viewModel = undefined;
    this.update();
  }

  private _attempt(attempt: number): void {
    this._choose({ zoom: null });
    this._poller.choose(attempt);
    // The new run replaces the drawing that was paused, so continue.
    this.resume();
  }

  private _retry(): void {
    this._poller.stop();
    this.updateVisibility();
    void this._load();
  }

  private _point(moment: number | null): void {
    if (moment !== this._moment) {
      this._moment = moment;
      this.update();
    }
  }

  /** Return the drawing that is shown, computed on demand and cached until something changes. */
  private _drawn(): IChartsViewModel | null {
    if (this._viewModel === undefined) {
      this._viewModel = buildViewModel(this._poller.history, this._choice, this.options.trans);
    }
    return this._viewModel;
  }

  /** Load the drawing code; the sentence and the tables do not need it. */
  private async _load(): Promise<void> {
    try {
      this._plot ??= (await import('./plot')).Plot;
      this._failure = '';
    } catch (reason) {
      this._failure = errorText(reason);
    }
    // A render after disposal would never be unmounted.
    if (!this.isDisposed) {
      this.update();
    }
  }

  private readonly _poller: HistoryPoller;
  private readonly _group = `jupyter-smx-charts-${groups++}`;
  private _choice: IChartsSelection = { zoom: null, host: '', hidden: new Set() };
  private _isHostChosen = false;
  private _isPaused = false;
  private _viewModel: IChartsViewModel | null | undefined;
  private _moment: number | null = null;
  private _plot: React.ComponentType<IPlotProps> | null = null;
  private _failure = '';
}
