// What all sections of the panel have: they follow the model and the filter, and keep the focus.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import { CommandIDs } from '../commands/commandIds';
import { commandRunner, itemCommandRunner } from '../commands/commandRunner';
import type { IArrayActions } from '../components/arrayRow';
import { FocusFallback } from '../components/focusFallback';
import type { IJobActions } from '../components/jobButtons';
import type { Filter } from '../model/filter';
import type { JobOrder } from '../model/jobOrder';
import { isReachable, isStateKnown, shownTime } from '../state/connectionState';
import type { IJobsModel } from '../tokens';
import { LiveWidget } from '../widgets/liveWidget';
import type { IJobListProps } from './jobList';

export interface IViewOptions {
  model: IJobsModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
  /** Where one logs in to the server. */
  loginUrl?: string;
  /** Keep the order of the finished jobs that a user chose; absent on a page without settings. */
  keepOrder?: (order: JobOrder) => void;
  /** Insert a cell into the notebook in front; absent on a page without notebooks. */
  insertCell?: (source: string) => void;
}

export type ISectionOptions = IViewOptions & { filter: Filter };

export abstract class SectionView extends LiveWidget {
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
        <div ref={this._content}>{this.draw()}</div>
      </FocusFallback>
    );
  }

  /** Called with the element that has the content, and with null when that goes away. */
  protected onContent(_content: HTMLElement | null): void {
    return;
  }

  /** The moment that its clocks show. */
  protected now(): number {
    return shownTime(this.model.state, this.model.now());
  }

  /** Move the focus to the list if its row went away. */
  private _handOn(): void {
    const find = (what: string): HTMLElement | null => this.node.querySelector(what);
    const heir = find('li[tabindex="0"]') ?? find('button, input');
    (heir ?? this.node.closest<HTMLElement>('.jp-smx-panel'))?.focus();
  }

  /** What the rows of a list of jobs can do here. */
  private _jobActions(): IJobActions & IArrayActions {
    const { commands } = this;
    return {
      onStop: itemCommandRunner(commands, CommandIDs.stopJob),
      onDelete: itemCommandRunner(commands, CommandIDs.deleteJob),
      onRerun: itemCommandRunner(commands, CommandIDs.rerunJob),
      onCompare: itemCommandRunner(commands, CommandIDs.compareJobs),
      onStopArray: itemCommandRunner(commands, CommandIDs.stopArray),
      onDeleteArray: commands.hasCommand(CommandIDs.deleteArray) ? this._deleteArray : undefined,
      onOpen:
        itemCommandRunner(commands, CommandIDs.openJob) ??
        itemCommandRunner(commands, CommandIDs.openLog)
    };
  }

  /** What all lists of jobs show and do alike. */
  protected jobListProps(): Omit<IJobListProps, 'jobs' | 'label' | 'empty' | 'page' | 'onEnd'> {
    const { state } = this.model;
    return {
      arrays: state.arrays,
      pools: state.pools,
      trends: state.trends,
      now: this.now(),
      trans: this.trans,
      scroller: this.node,
      isDisabled: !isReachable(state),
      ...this._jobActions()
    };
  }

  /** What to say of an empty list: that nothing is there, or that the filter hides it. */
  protected emptyWords(isFiltered: boolean, words: string): string {
    return isFiltered ? this.trans.__('No items match the filter.') : words;
  }

  /** False without an answer of the server: then the panel claims nothing, not even that there are no jobs. */
  protected isKnown(): boolean {
    return isStateKnown(this.model.state);
  }

  /** One function for all renderings: memoized rows are drawn again if they get another one. */
  private readonly _deleteArray = ({ id }: { id: string }): void => {
    commandRunner(this.commands, CommandIDs.deleteArray)?.({ id, filter: this.filter.text });
  };

  /** One function for all renderings: React calls another one with null and with the element again. */
  private readonly _content = (content: HTMLElement | null): void => this.onContent(content);
  protected readonly trans: TranslationBundle;
  protected readonly commands: CommandRegistry;
  protected readonly filter: Filter;
}
