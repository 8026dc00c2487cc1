// The card under a cell: one line about one job, live from the model, else the snapshot that the notebook has.

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import React from 'react';

import type { JobSummary } from '../_types';
import { errorText } from '../api/errors';
import { CommandIDs } from '../commands/commandIds';
import { commandRunner } from '../commands/commandRunner';
import { FailureNotice } from '../components/failureNotice';
import { FocusFallback } from '../components/focusFallback';
import { JobRemark } from '../components/jobProgress';
import { describeJobFailure } from '../format/failureText';
import { formatMoment } from '../format/numbers';
import { NAME_LIMIT, plainText } from '../format/plainText';
import type { IArraySnapshot } from '../state/arrays';
import { isArrayFinal, listedTasks } from '../state/arrays';
import { describeStaleness, isReachable, shownTime } from '../state/connectionState';
import { isFinal, isElsewhere, liveJob } from '../state/state';
import type { IJobsModel } from '../tokens';
import { LiveWidget } from '../widgets/liveWidget';
import { ArrayCard } from './arrayCard';
import type { CardDetailsModel, CardDetailsView } from './cardDetails';
import type { ICardActs, ICardLineProps } from './cardLine';
import { CardLine } from './cardLine';
import { CARD_MIME_TYPE } from './cardMimeType';
import type { ICardSnapshot } from './cardSnapshot';
import { parseCard } from './cardSnapshot';
import type { ClosedFailures } from './closedFailures';
import { findKernel } from './kernelLine';
import { OtherRecordsRemark } from './otherRecordsRemark';
import { StartLine } from './startLine';

/** Seconds after its end in which the card of a failed job opens by itself; cards of old notebooks stay closed. */
const RECENT = 3600;

/**
 * Renders one card; nothing in it comes from the notebook as HTML, so it needs no trust.
 */
export class CardRenderer extends LiveWidget implements IRenderMime.IRenderer {
  constructor(
    model: IJobsModel,
    private readonly commands: CommandRegistry,
    private readonly trans: TranslationBundle,
    private readonly open?: (id: string) => Promise<ICardDetails>,
    private readonly closedFailures?: ClosedFailures
  ) {
    super(model);
    this.addClass('jp-smx-card');
    model.changed.connect(this._openFailure, this);
  }

  dispose(): void {
    this._opened?.detail.dispose();
    super.dispose();
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const before = this._card?.id;
    this._card = parseCard(model.data[CARD_MIME_TYPE]);
    if (this._card?.id !== before) {
      // JupyterLab passes the output of another run to the same renderer.
      this._opened?.detail.dispose();
      this._opened = null;
      this._loading = '';
      this._isOpen &&= this._selfOpened !== before;
      this._isUnfolded = false;
      this._see(this.isVisible);
    }
    this._expect();
    this._openFailure();
    this.update();
    return this.renderPromise ?? Promise.resolve();
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._see(this.isVisible);
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._see(true);
  }

  protected onBeforeHide(msg: Message): void {
    this._see(false);
    super.onBeforeHide(msg);
  }

  protected onBeforeDetach(msg: Message): void {
    this._see(false);
    super.onBeforeDetach(msg);
  }

  protected isTicking(): boolean {
    const { array, id } = this._card ?? {};
    if (array && id) {
      return this._isUnfolded && listedTasks(this.model.state, id).some(task => !isFinal(task));
    }
    const job = this._live();
    return job !== undefined && !isFinal(job);
  }

  protected render(): JSX.Element {
    return (
      <FocusFallback node={this.node} onLost={() => this._handOn()}>
        {this._drawn()}
      </FocusFallback>
    );
  }

  /** Focus the first button after the focused one went away, such as that of a job that ended. */
  private _handOn(): void {
    this.node.querySelector<HTMLElement>('button')?.focus();
  }

  private _drawn(): JSX.Element {
    if (this._card === null) {
      return <span>{this.trans.__('Cannot show this card: it has no ID or no name.')}</span>;
    }
    if (this._card.array !== null) {
      return this._array(this._card.name, this._card.array);
    }
    const live = this._live();
    const job = live ?? this._card.summary;
    if (!job && this._card.submission !== null) {
      const { name, submission, at } = this._card;
      const age = at === null ? Infinity : this._now() - at;
      return <StartLine name={name} submission={submission} age={age} trans={this.trans} />;
    }
    if (!job) {
      return <span className="jp-smx-name">{plainText(this._card.name, NAME_LIMIT)}</span>;
    }
    return (
      <div role="group" aria-label={this.trans.__('Job %1', job.name)}>
        <CardLine job={job} isLive={live !== undefined} {...this._props(job)} />
        {this._failureNotice(job)}
        {this._remark(job, live !== undefined)}
        {this._otherRecordsRemark(job.name, isFinal(job))}
        {this._isOpen ? this._more(job) : null}
      </div>
    );
  }

  /** Return the remark on a job. A saved remark on an unfinished job may be outdated; one on its end is not. */
  private _remark(job: JobSummary, isLive: boolean): JSX.Element | null {
    return isLive || isFinal(job) ? <JobRemark job={job} trans={this.trans} /> : null;
  }

  /** Why the job failed: in the open card, and in a card that cannot be opened. */
  private _failureNotice(job: JobSummary): JSX.Element | null {
    const isShown = this._isOpen || this._acts(job).onFold === undefined;
    const record = this._opened?.detail.record?.job ?? null;
    const failure = isShown ? describeJobFailure(job, record, this.trans) : null;
    return failure && <FailureNotice failure={failure} hasTitle={false} trans={this.trans} />;
  }

  private _array(name: string, array: IArraySnapshot): JSX.Element {
    const isElsewhere = this._isElsewhere();
    return (
      <>
        <ArrayCard
          name={name}
          array={array}
          state={this.model.state}
          now={this._now()}
          saved={this._savedWords()}
          commands={isElsewhere ? null : this.commands}
          isOpen={this._isUnfolded}
          trans={this.trans}
          onFold={() => {
            this._isUnfolded = !this._isUnfolded;
            this.update();
          }}
        />
        {this._otherRecordsRemark(name, isArrayFinal(array.states))}
      </>
    );
  }

  /** Return the moment that the clocks of the card show. */
  private _now(): number {
    return shownTime(this.model.state, this.model.now());
  }

  private _props(job: JobSummary): Omit<ICardLineProps, 'job' | 'isLive'> {
    const { state } = this.model;
    return {
      now: this._now(),
      trend: state.trends.get(job.id),
      pool: state.pools.get(job.pool),
      saved: this._savedWords(),
      stale: describeStaleness(state, this.model.now(), this.trans),
      trans: this.trans,
      isOpen: this._isOpen,
      isDisabled: !isReachable(state),
      ...this._acts(job)
    };
  }

  /** Return the actions. Old jobs exist without being listed; without a controller no action on them is possible. */
  private _acts({ id, name }: JobSummary): ICardActs {
    const of = (command: string): (() => void) | undefined => {
      const act = commandRunner(this.commands, command);
      return act && (() => act({ id, name }));
    };
    const { connectionStatus, lastResponseAt } = this.model.state;
    const wasReady = connectionStatus === 'failing' && lastResponseAt !== null;
    return (connectionStatus === 'ready' || wasReady) && !this._isElsewhere()
      ? {
          onStop: of(CommandIDs.stopJob),
          onRerun: of(CommandIDs.rerunJob),
          onLog: of(CommandIDs.openLog),
          onView: of(CommandIDs.openJob),
          onFold: this.open && (() => this._fold())
        }
      : {};
  }

  private _more(job: JobSummary): JSX.Element {
    if (this._opened === null) {
      return <p role="status">{this._failure || this.trans.__('Loading the job…')}</p>;
    }
    const { More, detail } = this._opened;
    const act = commandRunner(this.commands, CommandIDs.openJob);
    const { id, name } = job;
    return (
      <More
        detail={detail}
        connectionStatus={this.model.state.connectionStatus}
        trans={this.trans}
        onFiles={isFinal(job) && act ? () => act({ id, name, section: 'files' }) : undefined}
      />
    );
  }

  /** Open the card of a job that failed a short time ago, unless the user closed it. */
  private _openFailure(): void {
    const job = this._card?.array ? undefined : this._live();
    if (job && !this._isOpen && this._opensItself(job)) {
      this._selfOpened = job.id;
      this._isOpen = true;
      this._see(this.isVisible);
      this.update();
    }
  }

  private _opensItself(job: JobSummary): boolean {
    const isNew = job.status === 'Failed' && this._selfOpened !== job.id;
    const isRecent = this.model.now() - (job.ended_at ?? 0) < RECENT;
    if (!isNew || !isRecent || this.closedFailures?.has(job.id)) {
      return false;
    }
    return this._acts(job).onFold !== undefined;
  }

  private _fold(): void {
    this._isOpen = !this._isOpen;
    const job = this._live();
    if (!this._isOpen && job?.status === 'Failed') {
      this._selfOpened = job.id;
      this.closedFailures?.add(job.id);
    }
    this._see(this.isVisible);
    this.update();
  }

  /** Follow the job while the open part is visible. */
  private _see(isShown: boolean): void {
    if (this._card && this._isOpen && this._opened === null && this._loading !== this._card.id) {
      void this._load(this._card.id);
    }
    this._opened?.detail.setVisible(this._isOpen && isShown);
  }

  private async _load(id: string): Promise<void> {
    this._loading = id;
    this._failure = '';
    const isWanted = (): boolean => !this.isDisposed && this._loading === id;
    try {
      const opened = await this.open?.(id);
      if (!isWanted()) {
        opened?.detail.dispose();
        return;
      }
      opened?.detail.changed.connect(() => this.update());
      this._opened = opened ?? null;
    } catch (reason) {
      if (!isWanted()) {
        return;
      }
      this._failure = this.trans.__('Cannot show this card: %1', errorText(reason));
    }
    this._loading = '';
    this._opened?.detail.setVisible(this._isOpen && this.isVisible);
    this.update();
  }

  /** Let the model read a job that this page does not list yet, such as one submitted a moment ago. */
  private _expect(): void {
    if (this._card === null) {
      return;
    }
    const { id, array, summary, submission, recordsId } = this._card;
    const isOver = array ? isArrayFinal(array.states) : summary !== null && isFinal(summary);
    if (!isOver && submission !== 'failed') {
      this.model.expectJob(id, recordsId);
    }
  }

  /** Return the age of a card that the page cannot follow: the notebook's last save, or the kernel's last update. */
  private _savedWords(): string {
    const at = this._card?.at ?? null;
    return at !== null && this._isElsewhere()
      ? this.trans.__('as of %1', formatMoment(at, this.model.now()))
      : this.trans.__('as of the last save of the notebook');
  }

  private _otherRecordsRemark(name: string, isOver: boolean): JSX.Element | null {
    return isOver || !this._isElsewhere() ? null : (
      <OtherRecordsRemark name={name} kernel={findKernel(this)} trans={this.trans} />
    );
  }

  private _isElsewhere(): boolean {
    return this._card !== null && isElsewhere(this._card.recordsId, this.model.state);
  }

  private _live(): JobSummary | undefined {
    return this._card === null ? undefined : liveJob(this.model.state, this._card.id);
  }

  private _card: ICardSnapshot | null = null;
  private _isOpen = false;
  /** Whether the tasks of an array are shown. */
  private _isUnfolded = false;
  /** The id of the failed job whose card opened by itself, or was closed. */
  private _selfOpened = '';
  /** The id of the job whose open part is being loaded. */
  private _loading = '';
  private _failure = '';
  private _opened: ICardDetails | null = null;
}

/** The component of the open part of a card, and the model that it shows. */
export interface ICardDetails {
  More: typeof CardDetailsView;
  detail: CardDetailsModel;
}
