// The panel "Jobs and pools" of the left sidebar.

import type { TranslationBundle } from '@jupyterlab/translation';
import { SidePanel, Toolbar, ToolbarButton } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import type { AccordionPanel } from '@lumino/widgets';
import React from 'react';

import { CommandIDs } from '../commands/commandIds';
import { commandRunner, itemCommandRunner } from '../commands/commandRunner';
import type { IArrayActions } from '../components/arrayRow';
import { ConnectionNotice } from '../components/connectionNotice';
import { FocusFallback } from '../components/focusFallback';
import { jobsIcon } from '../components/icons';
import type { IJobActions } from '../components/jobButtons';
import { formatCounts } from '../format/jobText';
import { Filter } from '../model/filter';
import { partitionJobs } from '../state/arrays';
import { isStateKnown } from '../state/connectionState';
import { livePools, runningJobs } from '../state/state';
import type { IJobsModel } from '../tokens';
import { LiveWidget } from '../widgets/liveWidget';
import { OtherRecordsNotice } from './otherRecordsNotice';
import { JobList } from './jobList';
import { PanelToolbar } from './panelToolbar';
import { PoolList } from './poolList';
import { RecordsNotice } from './recordsNotice';
import { RowMenu } from './rowMenu';

/** Lab's own command, there unless an administrator took the editor away. */
const SETTINGS = 'settingeditor:open';

/** In the order in which they stand. */
const SECTIONS = ['running', 'pools', 'finished'];

interface IViewOptions {
  model: IJobsModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
  /** Where one logs in to the server. */
  loginUrl?: string;
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
    const filter = new Filter();
    this.header.addWidget(new HeaderView({ ...options, filter }));
    this.addWidget(new RunningView({ ...options, filter }));
    this.addWidget(new PoolsView({ ...options, filter }));
    this.addWidget(new FinishedView({ ...options, filter }));
    this._menu = new RowMenu(this.node, options.model, options.commands, filter);
  }

  dispose(): void {
    this._menu.dispose();
    super.dispose();
  }

  /** Open the sections that are named and close the others. */
  unfold(sections: readonly string[]): void {
    SECTIONS.forEach((name, index) => {
      const panel = this.content as AccordionPanel;
      if (sections.includes(name)) {
        panel.expand(index);
      } else {
        panel.collapse(index);
      }
    });
  }

  protected onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    // Who opens it with the keyboard goes on in it; from elsewhere its buttons are many tabs away.
    if (!this.node.contains(document.activeElement)) {
      this.node.focus();
    }
  }

  private readonly _menu: RowMenu;
}

type ISectionOptions = IViewOptions & { filter: Filter };

abstract class SectionView extends LiveWidget {
  constructor(options: ISectionOptions, title: string) {
    super(options.model);
    this.trans = options.trans;
    this.commands = options.commands;
    this.filter = options.filter;
    this.title.label = title;
    this.addClass('jp-smx-section');
    this.filter.changed.connect(() => this.update());
  }

  /** What stands in the section. */
  protected abstract draw(): JSX.Element;

  protected render(): JSX.Element {
    return (
      <FocusFallback node={this.node} onLost={() => this._handOn()}>
        {this.draw()}
      </FocusFallback>
    );
  }

  /** Who acted on a row that went away goes on in the list. */
  private _handOn(): void {
    const find = (what: string): HTMLElement | null => this.node.querySelector(what);
    const heir = find('li[tabindex="0"]') ?? find('button, input');
    (heir ?? this.node.closest<HTMLElement>('.jp-smx-panel'))?.focus();
  }

  /** What the rows of a list of jobs can do here. */
  protected jobActions(): IJobActions & IArrayActions {
    const { commands, filter } = this;
    const deleteArray = commandRunner(commands, CommandIDs.deleteArray);
    return {
      onStop: itemCommandRunner(commands, CommandIDs.stopJob),
      onDelete: itemCommandRunner(commands, CommandIDs.deleteJob),
      onRerun: itemCommandRunner(commands, CommandIDs.rerunJob),
      onCompare: itemCommandRunner(commands, CommandIDs.compareJobs),
      onStopArray: itemCommandRunner(commands, CommandIDs.stopArray),
      onDeleteArray: deleteArray && (({ id }) => deleteArray({ id, filter: filter.text })),
      onOpen:
        itemCommandRunner(commands, CommandIDs.openJob) ??
        itemCommandRunner(commands, CommandIDs.openLog)
    };
  }

  /** What to say of an empty list: that nothing is there, or that the filter hides it. */
  protected emptyWords(isFiltered: boolean, words: string): string {
    return isFiltered ? this.trans.__('No items match the filter.') : words;
  }

  /** False while nobody could be asked: then nothing is claimed about jobs and pools, not even that there are none. */
  protected isKnown(): boolean {
    return isStateKnown(this.model.state);
  }

  protected readonly trans: TranslationBundle;
  protected readonly commands: CommandRegistry;
  protected readonly filter: Filter;
}

class HeaderView extends SectionView {
  constructor(options: ISectionOptions) {
    super(options, '');
    this._loginUrl = options.loginUrl;
  }

  protected isTicking(): boolean {
    return false;
  }

  protected draw(): JSX.Element {
    const { state } = this.model;
    const isReady = state.connectionStatus === 'ready';
    const refresh = commandRunner(this.commands, CommandIDs.refresh);
    const settings = commandRunner(this.commands, SETTINGS);
    return (
      <>
        <PanelToolbar
          text={this.filter.text}
          trans={this.trans}
          onFilter={text => (this.filter.text = text)}
          onRefresh={refresh}
          onSettings={settings && (() => settings({ query: 'jupyter-smx' }))}
        />
        <ConnectionNotice
          state={state}
          now={this.model.now()}
          trans={this.trans}
          loginUrl={this._loginUrl}
          onRefresh={refresh}
          onWake={commandRunner(this.commands, CommandIDs.wake)}
        />
        <RecordsNotice note={state.recordsNote} trans={this.trans} />
        <OtherRecordsNotice state={state} trans={this.trans} />
        <p className="jp-smx-counts" role="status" aria-live="polite">
          {isReady ? formatCounts(state, this.model.now(), this.trans) : ''}
        </p>
      </>
    );
  }

  private readonly _loginUrl: string | undefined;
}

class RunningView extends SectionView {
  constructor(options: ISectionOptions) {
    super(options, options.trans.__('Running'));
  }

  protected isTicking(): boolean {
    return runningJobs(this.model.state).length > 0;
  }

  protected draw(): JSX.Element {
    if (!this.isKnown()) {
      return <></>;
    }
    const all = partitionJobs(this.model.state).running;
    return (
      <JobList
        jobs={this.filter.jobs(all)}
        arrays={this.model.state.arrays}
        trends={this.model.state.trends}
        now={this.model.now()}
        trans={this.trans}
        label={this.trans.__('Running jobs')}
        empty={this.emptyWords(all.length > 0, this._welcome())}
        scroller={this.node}
        {...this.jobActions()}
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

class PoolsView extends SectionView {
  constructor(options: ISectionOptions) {
    super(options, options.trans.__('Pools'));
  }

  protected isTicking(): boolean {
    return this.model.state.pools.size > 0;
  }

  protected draw(): JSX.Element {
    if (!this.isKnown()) {
      return <></>;
    }
    const all = livePools(this.model.state);
    const keep = this.trans.__(
      'No warm pools. To keep one after a job, add %1.',
      '--keep-alive 10m'
    );
    return (
      <PoolList
        pools={this.filter.pools(all)}
        now={this.model.now()}
        trans={this.trans}
        empty={this.emptyWords(all.length > 0, keep)}
        onExtend={itemCommandRunner(this.commands, CommandIDs.extendPool)}
        onRelease={itemCommandRunner(this.commands, CommandIDs.releasePool)}
        onShell={itemCommandRunner(this.commands, CommandIDs.openPoolShell)}
      />
    );
  }
}

class FinishedView extends SectionView {
  constructor(options: ISectionOptions) {
    super(options, options.trans.__('Finished'));
    this.toolbar = new Toolbar();
    this._clear = new ToolbarButton({
      label: options.trans.__('Clear'),
      tooltip: options.trans.__('Delete the listed finished jobs'),
      onClick: () =>
        commandRunner(this.commands, CommandIDs.clearFinished)?.({ filter: this.filter.text })
    });
    this.toolbar.addItem('clear', this._clear);
  }

  /** Lab puts it beside the title of the section. */
  readonly toolbar: Toolbar;

  protected isTicking(): boolean {
    return false;
  }

  protected draw(): JSX.Element {
    const { state } = this.model;
    if (!this.isKnown()) {
      return <></>;
    }
    this._clear.enabled = this.commands.hasCommand(CommandIDs.clearFinished);
    const all = partitionJobs(state).finished;
    const none = state.connectionStatus === 'ready' ? this.trans.__('No finished jobs yet.') : '';
    return (
      <JobList
        jobs={this.filter.jobs(all)}
        arrays={this.model.state.arrays}
        trends={this.model.state.trends}
        now={this.model.now()}
        trans={this.trans}
        label={this.trans.__('Finished jobs')}
        empty={this.emptyWords(all.length > 0, none)}
        scroller={this.node}
        page={this.isVisible && state.connectionStatus === 'ready' ? state.cursor : null}
        onEnd={() => void this.model.loadMore()}
        {...this.jobActions()}
      />
    );
  }

  private readonly _clear: ToolbarButton;
}
