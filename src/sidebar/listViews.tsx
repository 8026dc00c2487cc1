// The sections of the panel: running jobs, warm pools and finished jobs.

import { Toolbar, ToolbarButton } from '@jupyterlab/ui-components';
import React from 'react';

import { CommandIDs } from '../commands/commandIds';
import { commandRunner, itemCommandRunner } from '../commands/commandRunner';
import type { JobOrder } from '../model/jobOrder';
import { sortJobs } from '../model/jobOrder';
import { partitionJobs } from '../state/arrays';
import { isReachable } from '../state/connectionState';
import { livePools, runningJobs } from '../state/state';
import { ContentHeight } from './contentHeight';
import type { IListSectionOptions, ListComponents } from './listSection';
import { ListSection } from './listSection';
import { SortView } from './sortView';

/** A section that is as high as its rows; the finished jobs below have the rest of the panel. */
abstract class ListView extends ListSection {
  dispose(): void {
    this._height.dispose();
    super.dispose();
  }

  protected onContent(content: HTMLElement | null): void {
    this._height.follow(content);
  }

  private readonly _height = new ContentHeight(this);
}

export class RunningView extends ListView {
  constructor(options: IListSectionOptions) {
    super(options, options.trans.__('Running'));
  }

  protected isTicking(): boolean {
    return runningJobs(this.model.state).length > 0;
  }

  protected drawList({ JobList }: ListComponents): JSX.Element {
    const all = partitionJobs(this.model.state).running;
    return (
      <JobList
        jobs={this.filter.jobs(all)}
        label={this.trans.__('Running jobs')}
        empty={this.emptyWords(all.length > 0, this._welcome())}
        {...this.jobListProps()}
      />
    );
  }

  /** How to start a job; without any job yet, also what to do with a kernel that has no magics. */
  private _welcome(): string {
    const { trans } = this;
    const start = trans.__(
      'No jobs are running. To start one, add %1 at the top of a cell.',
      '%%train'
    );
    if (this.model.state.jobs.size > 0) {
      return start;
    }
    const cure = trans.__(
      'If the cell fails with "Cell magic `%1` not found", its kernel lacks the package. Run %2 and then %3 in the notebook.',
      '%%train',
      '%pip install jupyter-smx',
      '%load_ext jupyter_smx'
    );
    return `${start} ${cure}`;
  }
}

export class PoolsView extends ListView {
  constructor(options: IListSectionOptions) {
    super(options, options.trans.__('Pools'));
  }

  protected isTicking(): boolean {
    return this.model.state.pools.size > 0;
  }

  protected drawList({ PoolList }: ListComponents): JSX.Element {
    const all = livePools(this.model.state);
    const keep = this.trans.__(
      'No warm pools. To keep one after a job, add %1.',
      '--keep-alive 10m'
    );
    return (
      <PoolList
        pools={this.filter.pools(all)}
        jobs={new Map(runningJobs(this.model.state).map(job => [job.pool, job]))}
        now={this.now()}
        trans={this.trans}
        empty={this.emptyWords(all.length > 0, keep)}
        scroller={this.node}
        isDisabled={!isReachable(this.model.state)}
        onExtend={itemCommandRunner(this.commands, CommandIDs.extendPool)}
        onRelease={itemCommandRunner(this.commands, CommandIDs.releasePool)}
        onShell={itemCommandRunner(this.commands, CommandIDs.openPoolShell)}
      />
    );
  }
}

export class FinishedView extends ListSection {
  constructor(options: IListSectionOptions) {
    super(options, options.trans.__('Finished'));
    this.toolbar = new Toolbar();
    this._clear = new ToolbarButton({
      label: options.trans.__('Clear'),
      tooltip: options.trans.__('Delete the listed finished jobs'),
      onClick: () =>
        commandRunner(this.commands, CommandIDs.clearFinished)?.({ filter: this.filter.text })
    });
    this._sort = new SortView(options.trans, order => {
      this.update();
      options.keepOrder?.(order);
    });
    this.toolbar.addItem('sort', this._sort);
    this.toolbar.addItem('clear', this._clear);
  }

  /** Lab puts it beside the title of the section. */
  readonly toolbar: Toolbar;

  /** Show the jobs in an order. */
  sort(order: JobOrder): void {
    this._sort.order = order;
    this.update();
  }

  protected isTicking(): boolean {
    return false;
  }

  protected drawList({ JobList }: ListComponents): JSX.Element {
    const { state } = this.model;
    this._clear.enabled = this.commands.hasCommand(CommandIDs.clearFinished) && isReachable(state);
    const all = sortJobs(partitionJobs(state).finished, this._sort.order);
    const none = state.connectionStatus === 'ready' ? this.trans.__('No finished jobs yet.') : '';
    return (
      <JobList
        jobs={this.filter.jobs(all)}
        label={this.trans.__('Finished jobs')}
        empty={this.emptyWords(all.length > 0, none)}
        page={this.isVisible && state.connectionStatus === 'ready' ? state.cursor : null}
        onEnd={() => void this.model.loadMore()}
        {...this.jobListProps()}
      />
    );
  }

  private readonly _clear: ToolbarButton;
  private readonly _sort: SortView;
}
