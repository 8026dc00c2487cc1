// The line of a card: the state of one job, with what it uses and measures, and its buttons.

import type { TranslationBundle } from '@jupyterlab/translation';
import { launchIcon, listIcon, runIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { JobSummary, PoolSummary } from '../_types';
import { FoldButton } from '../components/foldButton';
import { IconButton, StopButton } from '../components/jobButtons';
import { JobExpectedDuration, JobMetrics, JobProgress } from '../components/jobProgress';
import { JobDuration, StatusIcon } from '../components/jobStatus';
import { formatAllocation, formatOtherEngine, formatStart, formatStep } from '../format/jobText';
import { NAME_LIMIT, plainText } from '../format/plainText';
import { formatExpectedStart } from '../format/progressText';
import { isFinal } from '../state/state';
import type { ITrend } from '../state/trends';

/** What can be done from a card; a button whose act is not there is not there. */
export interface ICardActs {
  onStop?: () => void;
  onRerun?: () => void;
  onLog?: () => void;
  onView?: () => void;
  onFold?: () => void;
}

export interface ICardLineProps extends ICardActs {
  job: JobSummary;
  isLive: boolean;
  now: number;
  /** From when it is, where the page cannot follow it. */
  saved: string;
  /** Why it may be old; empty where it is not. */
  stale: string;
  trans: TranslationBundle;
  trend?: ITrend;
  /** The hosts of the job, as far as the page knows them. */
  pool?: PoolSummary;
  isOpen: boolean;
  /** The server does not answer: its buttons do nothing. */
  isDisabled: boolean;
}

/** Why what a card says of a running job may not be so any more. */
export function Stale({ saved, stale }: Pick<ICardLineProps, 'saved' | 'stale'>): JSX.Element {
  const words = [saved, stale].filter(Boolean);
  return words.length > 0 ? <span className="jp-smx-stale">{words.join(' · ')}</span> : <></>;
}

export function CardLine(props: ICardLineProps): JSX.Element {
  const { job, isLive, now, saved, stale, trend, pool, trans, isOpen, onFold } = props;
  const isRunning = !isFinal(job);
  const words = [
    formatStep(job, trans),
    job.instances,
    formatOtherEngine(job.engine, pool?.machines),
    formatStart(job, trans)
  ];
  return (
    <div className="jp-smx-card-line">
      {onFold ? (
        <FoldButton isOpen={isOpen} label={trans.__('Details of %1', job.name)} onFold={onFold} />
      ) : null}
      <StatusIcon job={job} />
      <span className="jp-smx-name" title={job.name}>
        <bdi>{plainText(job.name, NAME_LIMIT)}</bdi>
      </span>
      <span className="jp-smx-words" role="status" aria-live="polite">
        {words.filter(Boolean).join(' · ')}
      </span>
      <Times {...props} />
      {isLive || !isRunning ? <JobDuration job={job} now={now} trans={trans} /> : null}
      {isLive ? <JobExpectedDuration job={job} trans={trans} /> : null}
      <JobProgress job={job} trans={trans} />
      <JobMetrics job={job} trend={trend} trans={trans} />
      {isRunning ? <Stale saved={isLive ? '' : saved} stale={stale} /> : null}
      <CardButtons {...props} />
    </div>
  );
}

/** When the job starts, and when its hosts end: outside of the live region, since it changes each second. */
function Times({ job, pool, now, trans }: ICardLineProps): JSX.Element {
  const allocation = isFinal(job) ? '' : formatAllocation(pool, now, trans);
  const words = [formatExpectedStart(job, now, trans), allocation].filter(Boolean);
  return (
    <>
      {words.map(one => (
        <span key={one} className="jp-smx-words">
          {one}
        </span>
      ))}
    </>
  );
}

function CardButtons(props: ICardLineProps): JSX.Element {
  const { job, isLive, isDisabled, trans, onStop, onRerun, onLog, onView } = props;
  const isOver = isFinal(job);
  return (
    <span className="jp-smx-row-buttons">
      {isLive && !isOver && onStop ? (
        <StopButton job={job} trans={trans} isDisabled={isDisabled} onStop={onStop} />
      ) : null}
      {isOver && onRerun ? (
        <IconButton
          label={trans.__('Rerun %1', job.name)}
          icon={runIcon}
          isDisabled={isDisabled}
          onClick={onRerun}
        />
      ) : null}
      {onLog ? (
        <IconButton
          label={trans.__('Log of %1', job.name)}
          icon={listIcon}
          isDisabled={isDisabled}
          onClick={onLog}
        />
      ) : null}
      {onView ? (
        <IconButton
          label={trans.__('Open %1', job.name)}
          icon={launchIcon}
          isDisabled={isDisabled}
          onClick={onView}
        />
      ) : null}
    </span>
  );
}
