// The card under a cell: one line about one job, live from the model, else the snapshot that the notebook holds.

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  caretDownIcon,
  caretRightIcon,
  launchIcon,
  listIcon,
  runIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import React from 'react';

import type { JobSummary } from '../_types';
import { errorText } from '../api/errors';
import { CommandIDs } from '../commands/commandIds';
import { commandRunner } from '../commands/commandRunner';
import { ArrayStatusLine } from '../components/arrayRow';
import { FocusFallback } from '../components/focusFallback';
import { IconButton, StopButton } from '../components/jobButtons';
import { JobExpectedDuration, JobMetrics, JobProgress, JobRemark } from '../components/jobProgress';
import { JobDuration, StatusIcon } from '../components/jobStatus';
import { formatOtherEngine, formatStart, formatStep } from '../format/jobText';
import { formatMoment } from '../format/numbers';
import { formatExpectedStart } from '../format/progressText';
import type { IArraySnapshot } from '../state/arrays';
import { currentTaskStates, isArrayFinal, mayBeStale } from '../state/arrays';
import { describeStaleness } from '../state/connectionState';
import { isFinal, isElsewhere, liveJob } from '../state/state';
import type { ITrend } from '../state/trends';
import type { IJobsModel } from '../tokens';
import { LiveWidget } from '../widgets/liveWidget';
import type { CardDetailsModel, CardDetailsView } from './cardDetails';
import type { ICardSnapshot } from './cardSnapshot';
import { CARD_MIME_TYPE, parseCard } from './cardSnapshot';
import { OtherRecordsRemark } from './otherRecordsRemark';

/**
 * Renders one card; nothing in it comes from the notebook as HTML, so it needs no trust.
 */
export class CardRenderer extends LiveWidget implements IRenderMime.IRenderer {
  constructor(
    model: IJobsModel,
    private readonly commands: CommandRegistry,
    private readonly trans: TranslationBundle,
    private readonly open?: (id: string) => Promise<ICardDetails>
  ) {
    super(model);
    this.addClass('jp-smx-card');
  }

  dispose(): void {
    this._opened?.detail.dispose();
    super.dispose();
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const before = this._card?.id;
    this._card = parseCard(model.data[CARD_MIME_TYPE]);
    if (this._card?.id !== before) {
      // Lab gives the output of another run to the same renderer.
      this._opened?.detail.dispose();
      this._opened = null;
      this._loading = '';
      this._see(this.isVisible);
    }
    this._expect();
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

  /** Who was on a button that went away, as that of a job that ended, goes on beside it. */
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
    if (!job) {
      return <span className="jp-smx-name">{this._card.name}</span>;
    }
    return (
      <div role="group" aria-label={this.trans.__('Job %1', job.name)}>
        <CardLine job={job} isLive={live !== undefined} {...this._props(job)} />
        {job.status === 'Failed' && job.failure_line === null && job.message ? (
          // There is no traceback below it that would say why.
          <p className="jp-smx-reason">{job.message}</p>
        ) : null}
        {this._remark(job, live !== undefined)}
        {this._otherRecordsRemark(job.name, isFinal(job))}
        {this._isOpen ? this._more(job) : null}
      </div>
    );
  }

  /** What a saved card says of a job that ran may be old; of its end it is not. */
  private _remark(job: JobSummary, isLive: boolean): JSX.Element | null {
    return isLive || isFinal(job) ? <JobRemark job={job} trans={this.trans} /> : null;
  }

  private _array(name: string, array: IArraySnapshot): JSX.Element {
    const { model, trans } = this;
    const states = currentTaskStates(array, model.state.jobs.values());
    const isOver = isArrayFinal(states);
    const stale = isOver ? '' : describeStaleness(model.state, model.now(), trans);
    const saved = mayBeStale(array, model.state) ? this._savedWords() : '';
    return (
      <>
        <ArrayStatusLine name={name} title={array.title} states={states} trans={trans}>
          <Stale saved={saved} stale={stale} />
        </ArrayStatusLine>
        {this._otherRecordsRemark(name, isOver)}
      </>
    );
  }

  private _props(job: JobSummary): Omit<ICardLineProps, 'job' | 'isLive'> {
    const { state } = this.model;
    return {
      now: this.model.now(),
      trend: state.trends.get(job.id),
      saved: this._savedWords(),
      stale: describeStaleness(state, this.model.now(), this.trans),
      trans: this.trans,
      isOpen: this._isOpen,
      ...this._acts(job)
    };
  }

  /** Old jobs are not listed and there all the same; without a controller nothing of them can be asked. */
  private _acts({ id, name }: JobSummary): ICardActs {
    const of = (command: string): (() => void) | undefined => {
      const act = commandRunner(this.commands, command);
      return act && (() => act({ id, name }));
    };
    return this.model.state.connectionStatus === 'ready' && !this._isElsewhere()
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

  private _fold(): void {
    this._isOpen = !this._isOpen;
    this._see(this.isVisible);
    this.update();
  }

  /** Follow the job while the open part is seen. */
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

  /** Let the model read a job that this page does not list yet, as one that was just submitted. */
  private _expect(): void {
    if (this._card === null) {
      return;
    }
    const { id, array, summary, recordsId } = this._card;
    const isOver = array ? isArrayFinal(array.states) : summary !== null && isFinal(summary);
    if (!isOver) {
      this.model.expectJob(id, recordsId);
    }
  }

  /** From when a card is that the page cannot follow: the last save of the notebook, or what its kernel told last. */
  private _savedWords(): string {
    const at = this._card?.at ?? null;
    return at !== null && this._isElsewhere()
      ? this.trans.__('as of %1', formatMoment(at, this.model.now()))
      : this.trans.__('as of the last save of the notebook');
  }

  private _otherRecordsRemark(name: string, isOver: boolean): JSX.Element | null {
    return isOver || !this._isElsewhere() ? null : (
      <OtherRecordsRemark name={name} trans={this.trans} />
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
  /** The id of the job whose open part is on its way. */
  private _loading = '';
  private _failure = '';
  private _opened: ICardDetails | null = null;
}

/** What draws the open part of a card, and what it follows. */
export interface ICardDetails {
  More: typeof CardDetailsView;
  detail: CardDetailsModel;
}

/** What can be done from a card; a button whose act is not there is not there. */
interface ICardActs {
  onStop?: () => void;
  onRerun?: () => void;
  onLog?: () => void;
  onView?: () => void;
  onFold?: () => void;
}

interface ICardLineProps extends ICardActs {
  job: JobSummary;
  isLive: boolean;
  now: number;
  /** From when it is, where the page cannot follow it. */
  saved: string;
  /** Why it may be old; empty where it is not. */
  stale: string;
  trans: TranslationBundle;
  trend?: ITrend;
  isOpen: boolean;
}

/** Why what a card says of a running job may not be so any more. */
function Stale({ saved, stale }: Pick<ICardLineProps, 'saved' | 'stale'>): JSX.Element {
  const words = [saved, stale].filter(Boolean);
  return words.length > 0 ? <span className="jp-smx-stale">{words.join(' · ')}</span> : <></>;
}

function CardLine(props: ICardLineProps): JSX.Element {
  const { job, isLive, now, saved, stale, trend, trans } = props;
  const isRunning = !isFinal(job);
  const words = [
    formatStep(job, trans),
    job.instances,
    formatOtherEngine(job.engine),
    formatStart(job, trans)
  ];
  const wait = formatExpectedStart(job, now, trans);
  return (
    <div className="jp-smx-card-line">
      <Fold {...props} />
      <StatusIcon job={job} />
      <span className="jp-smx-name">{job.name}</span>
      <span className="jp-smx-words" role="status" aria-live="polite">
        {words.filter(Boolean).join(' · ')}
      </span>
      {/* It gets shorter as one looks: nobody wants to hear that. */}
      {wait ? <span className="jp-smx-words">{wait}</span> : null}
      {isLive || !isRunning ? <JobDuration job={job} now={now} trans={trans} /> : null}
      {isLive ? <JobExpectedDuration job={job} trans={trans} /> : null}
      <JobProgress job={job} trans={trans} />
      <JobMetrics job={job} trend={trend} trans={trans} />
      {isRunning ? <Stale saved={isLive ? '' : saved} stale={stale} /> : null}
      <CardButtons {...props} />
    </div>
  );
}

/** Opens and closes the part below the line. */
function Fold({ job, isOpen, trans, onFold }: ICardLineProps): JSX.Element | null {
  return onFold ? (
    <button
      type="button"
      className="jp-smx-fold"
      aria-expanded={isOpen}
      aria-label={trans.__('Details of %1', job.name)}
      onClick={onFold}
    >
      {isOpen ? <caretDownIcon.react tag="span" /> : <caretRightIcon.react tag="span" />}
    </button>
  ) : null;
}

function CardButtons(props: ICardLineProps): JSX.Element {
  const { job, isLive, trans, onStop, onRerun, onLog, onView } = props;
  const isOver = isFinal(job);
  return (
    <span className="jp-smx-row-buttons">
      {isLive && !isOver && onStop ? <StopButton job={job} trans={trans} onStop={onStop} /> : null}
      {isOver && onRerun ? (
        <IconButton label={trans.__('Rerun %1', job.name)} icon={runIcon} onClick={onRerun} />
      ) : null}
      {onLog ? (
        <IconButton label={trans.__('Log of %1', job.name)} icon={listIcon} onClick={onLog} />
      ) : null}
      {onView ? (
        <IconButton label={trans.__('Open %1', job.name)} icon={launchIcon} onClick={onView} />
      ) : null}
    </span>
  );
}
