// The card under a cell: one line about one job, live from the model, else the snapshot that the notebook holds.

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import type { JobSummary } from './_types';
import { statesNow } from './arrays';
import { errandFor } from './errand';
import { CommandIDs } from './ids';
import { ArrayLine } from './components/arrays';
import { StopButton } from './components/buttons';
import { JobTime, StatusMark } from './components/time';
import { JobExpected, JobMetrics, JobProgress } from './components/outlook';
import { startWords, stepWords } from './format';
import { LiveWidget } from './live';
import { waitWords } from './outlook';
import type { ICard } from './snapshot';
import { CARD_MIME_TYPE, readCard } from './snapshot';
import { isFinal } from './state';
import type { IJobsModel } from './tokens';
import { staleWords } from './trouble';

/**
 * Renders one card; nothing in it comes from the notebook as HTML, so it needs no trust.
 */
export class CardRenderer extends LiveWidget implements IRenderMime.IRenderer {
  constructor(
    model: IJobsModel,
    private readonly commands: CommandRegistry,
    private readonly trans: TranslationBundle
  ) {
    super(model);
    this.addClass('jp-smx-card');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._card = readCard(model.data[CARD_MIME_TYPE]);
    this.update();
    return this.renderPromise ?? Promise.resolve();
  }

  protected isTicking(): boolean {
    const job = this._live();
    return job !== undefined && !isFinal(job);
  }

  protected render(): JSX.Element {
    if (this._card === null) {
      return <span>{this.trans.__('This card cannot be read: it has no id or no name.')}</span>;
    }
    const { array, name } = this._card;
    if (array !== null) {
      const states = statesNow(array, this.model.state.jobs.values());
      return <ArrayLine name={name} title={array.title} states={states} trans={this.trans} />;
    }
    const live = this._live();
    const job = live ?? this._card.summary;
    if (!job) {
      return <span className="jp-smx-name">{this._card.name}</span>;
    }
    return <CardLine job={job} isLive={live !== undefined} {...this._props()} />;
  }

  private _props(): Omit<ICardLineProps, 'job' | 'isLive'> {
    return {
      now: this.model.now(),
      stale: staleWords(this.model.state, this.model.now(), this.trans),
      trans: this.trans,
      onStop: errandFor(this.commands, CommandIDs.stopJob)
    };
  }

  private _live(): JobSummary | undefined {
    return this._card === null ? undefined : this.model.state.jobs.get(this._card.id);
  }

  private _card: ICard | null = null;
}

interface ICardLineProps {
  job: JobSummary;
  isLive: boolean;
  now: number;
  /** Why it may be old; empty where it is not. */
  stale: string;
  trans: TranslationBundle;
  onStop?: (job: JobSummary) => void;
}

/** Why what a card says of a running job may not be so any more. */
function Stale(props: Pick<ICardLineProps, 'isLive' | 'stale' | 'trans'>): JSX.Element {
  const { isLive, stale, trans } = props;
  const saved = isLive ? '' : trans.__('as it was when the notebook was saved');
  const words = [saved, stale].filter(Boolean);
  return words.length > 0 ? <span className="jp-smx-stale">{words.join(' · ')}</span> : <></>;
}

function CardLine({ job, isLive, now, stale, trans, onStop }: ICardLineProps): JSX.Element {
  const isRunning = !isFinal(job);
  const words = [
    stepWords(job, trans),
    waitWords(job, now, trans),
    job.instances,
    startWords(job, trans)
  ];
  return (
    <div className="jp-smx-card-line" role="group" aria-label={trans.__('Job %1', job.name)}>
      <StatusMark job={job} />
      <span className="jp-smx-name">{job.name}</span>
      <span className="jp-smx-words" role="status" aria-live="polite">
        {words.filter(Boolean).join(' · ')}
      </span>
      {isLive || !isRunning ? <JobTime job={job} now={now} trans={trans} /> : null}
      {isLive ? <JobExpected job={job} trans={trans} /> : null}
      <JobProgress job={job} trans={trans} />
      <JobMetrics job={job} trans={trans} />
      {isRunning ? <Stale isLive={isLive} stale={stale} trans={trans} /> : null}
      {isLive && isRunning && onStop ? (
        <StopButton job={job} trans={trans} onStop={onStop} />
      ) : null}
    </div>
  );
}
