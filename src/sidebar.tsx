// The panel "Jobs and pools" of the left sidebar.

import type { TranslationBundle } from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import React from 'react';

import { CommandIDs } from './commands';
import { JobList } from './components/jobs';
import { Notice } from './components/notice';
import { PoolList } from './components/pools';
import { countSentence } from './format';
import { jobsIcon } from './icons';
import { LiveWidget } from './live';
import { finished, livePools, running } from './state';
import type { IJobsModel } from './tokens';

interface IViewOptions {
  model: IJobsModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
}

/**
 * A notice when the server half does not answer, then running jobs, warm pools and finished jobs.
 */
export class JobsPanel extends SidePanel {
  constructor(options: IViewOptions) {
    super();
    const { trans } = options;
    this.id = 'jupyter-smx-panel';
    this.addClass('jp-smx-panel');
    this.title.icon = jobsIcon;
    this.title.caption = trans.__('Jobs and pools');
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Jobs and pools'));
    this.header.addWidget(new HeaderView(options));
    this.addWidget(new RunningView(options));
    this.addWidget(new PoolsView(options));
    this.addWidget(new FinishedView(options));
  }

  protected onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    // Who opens it with the keyboard goes on in it; from elsewhere its buttons are many tabs away.
    if (!this.node.contains(document.activeElement)) {
      this.node.focus();
    }
  }
}

abstract class SectionView extends LiveWidget {
  constructor(options: IViewOptions, title: string) {
    super(options.model);
    this.trans = options.trans;
    this.commands = options.commands;
    this.title.label = title;
    this.addClass('jp-smx-section');
  }

  protected run(id: string, target: string): void {
    void this.commands.execute(id, { id: target });
  }

  /** False while nobody could be asked: then nothing is claimed about jobs and pools, not even that there are none. */
  protected isKnown(): boolean {
    const { reach } = this.model.state;
    return reach !== 'unknown' && reach !== 'missing';
  }

  protected readonly trans: TranslationBundle;
  protected readonly commands: CommandRegistry;
}

class HeaderView extends SectionView {
  constructor(options: IViewOptions) {
    super(options, '');
  }

  protected isTicking(): boolean {
    return false;
  }

  protected render(): JSX.Element {
    const { state } = this.model;
    const [jobs, pools] = [running(state).length, state.pools.size];
    return (
      <>
        <Notice
          state={state}
          trans={this.trans}
          onRefresh={() => void this.commands.execute(CommandIDs.refresh)}
          onWake={() => void this.commands.execute(CommandIDs.wake)}
        />
        <p className="jp-smx-counts" role="status" aria-live="polite">
          {state.reach === 'ready' ? countSentence(jobs, pools, this.trans) : ''}
        </p>
      </>
    );
  }
}

class RunningView extends SectionView {
  constructor(options: IViewOptions) {
    super(options, options.trans.__('Running'));
  }

  protected isTicking(): boolean {
    return running(this.model.state).length > 0;
  }

  protected render(): JSX.Element {
    if (!this.isKnown()) {
      return <></>;
    }
    return (
      <JobList
        jobs={running(this.model.state)}
        now={this.model.now()}
        trans={this.trans}
        label={this.trans.__('Running jobs')}
        empty={this.trans.__(
          'No job is running. A cell that begins with %1 starts one.',
          '%%train'
        )}
        onStop={job => this.run(CommandIDs.stopJob, job.id)}
      />
    );
  }
}

class PoolsView extends SectionView {
  constructor(options: IViewOptions) {
    super(options, options.trans.__('Pools'));
  }

  protected isTicking(): boolean {
    return this.model.state.pools.size > 0;
  }

  protected render(): JSX.Element {
    if (!this.isKnown()) {
      return <></>;
    }
    return (
      <PoolList
        pools={livePools(this.model.state)}
        now={this.model.now()}
        trans={this.trans}
        onExtend={pool => this.run(CommandIDs.extendPool, pool.id)}
        onRelease={pool => this.run(CommandIDs.releasePool, pool.id)}
      />
    );
  }
}

class FinishedView extends SectionView {
  constructor(options: IViewOptions) {
    super(options, options.trans.__('Finished'));
  }

  protected isTicking(): boolean {
    return false;
  }

  protected render(): JSX.Element {
    if (!this.isKnown()) {
      return <></>;
    }
    return (
      <JobList
        jobs={finished(this.model.state)}
        now={this.model.now()}
        trans={this.trans}
        label={this.trans.__('Finished jobs')}
        empty={this.model.state.reach === 'ready' ? this.trans.__('No job has finished yet.') : ''}
        onStop={job => this.run(CommandIDs.stopJob, job.id)}
      />
    );
  }
}
