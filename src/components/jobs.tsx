// Rows of jobs: the running ones with a stop button, the finished ones with their outcome.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';
import { deleteIcon, runIcon, stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { JobSummary } from '../_types';
import type { ITasks } from '../arrays';
import { together } from '../arrays';
import { clock, elapsed, measured, money, spoken, startWords, stepWords } from '../format';
import { waitWords } from '../outlook';
import { isFinal } from '../state';
import { TasksRow } from './arrays';
import { JobExpected, JobMetrics, JobProgress } from './outlook';
import type { RowPlace } from './rows';
import { Rows, useReadOn } from './rows';
import { Words } from './words';

/** What a row can do; a button whose act is not there is not there. */
export interface IJobActions {
  onStop?: (job: JobSummary) => void;
  onDelete?: (job: JobSummary) => void;
  onOpen?: (job: JobSummary) => void;
  onRerun?: (job: JobSummary) => void;
}

export interface IJobListProps extends IJobActions {
  jobs: readonly JobSummary[];
  now: number;
  trans: TranslationBundle;
  /** The accessible name of the list. */
  label: string;
  /** What stands there when there is no job. */
  empty: string;
  /** The element in which the list scrolls. */
  scroller: HTMLElement;
  /** What `Rows` says of it. */
  page?: string | null;
  onEnd?: () => void;
}

/** Pixels of a row of two lines. */
const ROW = 48;

export function JobList(props: IJobListProps): JSX.Element {
  const { jobs, label, empty, scroller, page = null, onEnd, ...row } = props;
  if (jobs.length === 0) {
    return <NoRows words={empty} page={page} trans={row.trans} onEnd={onEnd} />;
  }
  const forJob = (act?: (job: JobSummary) => void) => (one: JobSummary | ITasks) =>
    'tasks' in one ? undefined : act?.(one);
  return (
    <Rows
      items={together(jobs)}
      label={label}
      scroller={scroller}
      estimate={ROW}
      page={page}
      onEnd={onEnd}
      onOpen={forJob(row.onOpen)}
      onDelete={forJob(job => (isFinal(job) ? row.onDelete : row.onStop)?.(job))}
    >
      {(one, place, isCurrent) =>
        'tasks' in one ? (
          <TasksRow row={one} trans={row.trans} place={place} />
        ) : (
          <JobRow job={one} place={place} isCurrent={isCurrent} {...row} />
        )
      }
    </Rows>
  );
}

/** What stands there instead of rows; while older jobs may still match, they are read. */
function NoRows(props: {
  words: string;
  page: string | null;
  trans: TranslationBundle;
  onEnd?: () => void;
}): JSX.Element {
  const { words, page, trans, onEnd } = props;
  useReadOn(page, onEnd);
  return (
    <p className="jp-smx-empty" role="status">
      {page === null ? words : trans.__('Looking through older jobs…')}
    </p>
  );
}

interface IJobRowProps extends IJobActions {
  job: JobSummary;
  now: number;
  trans: TranslationBundle;
  place: RowPlace;
  isCurrent: boolean;
}

function JobRow(props: IJobRowProps): JSX.Element {
  const { job, now, trans, place } = props;
  const words = [
    stepWords(job, trans),
    waitWords(job, now, trans),
    job.instances,
    startWords(job, trans),
    job.cost ? money(job.cost) : ''
  ];
  return (
    <li className="jp-smx-row" data-status={job.status} data-job={job.id} {...place}>
      <StatusMark job={job} />
      <div className="jp-smx-row-text">
        <div className="jp-smx-row-title">
          <span className="jp-smx-name" title={job.name}>
            {job.name}
          </span>
          <span className="jp-smx-times">
            <JobTime job={job} now={now} trans={trans} />
            <JobExpected job={job} trans={trans} />
          </span>
        </div>
        <JobProgress job={job} trans={trans} />
        <Words words={words} />
        <JobMetrics job={job} trans={trans} />
      </div>
      <JobButtons {...props} />
    </li>
  );
}

function JobButtons({ job, trans, isCurrent, ...acts }: IJobRowProps): JSX.Element | null {
  const tabIndex = isCurrent ? 0 : -1;
  if (!isFinal(job)) {
    const { onStop } = acts;
    return onStop ? (
      <StopButton job={job} trans={trans} onStop={onStop} tabIndex={tabIndex} />
    ) : null;
  }
  const { onRerun, onDelete } = acts;
  return (
    <span className="jp-smx-row-buttons">
      {onRerun ? (
        <IconButton
          label={trans.__('Run %1 again', job.name)}
          icon={runIcon}
          tabIndex={tabIndex}
          onClick={() => onRerun(job)}
        />
      ) : null}
      {onDelete ? (
        <IconButton
          label={trans.__('Delete %1', job.name)}
          icon={deleteIcon}
          tabIndex={tabIndex}
          onClick={() => onDelete(job)}
        />
      ) : null}
    </span>
  );
}

/** How long a job took, or takes so far: a clock while it runs, the measured time afterwards. */
export function JobTime(props: {
  job: JobSummary;
  now: number;
  trans: TranslationBundle;
}): JSX.Element {
  const { job, now, trans } = props;
  const seconds = elapsed(job, now);
  const words = isFinal(job)
    ? trans.__('took %1', spoken(seconds, trans))
    : trans.__('for %1', spoken(seconds, trans));
  return (
    <span className="jp-smx-time">
      <span aria-hidden="true">{isFinal(job) ? measured(seconds, trans) : clock(seconds)}</span>
      <span className="jp-smx-spoken">{words}</span>
    </span>
  );
}

const MARKS: Record<JobSummary['status'], string> = {
  InProgress: '●',
  Stopping: '◌',
  Completed: '✓',
  Failed: '✗',
  Stopped: '■'
};

/** The state as one sign; the words beside it say the same. */
export function StatusMark({ job }: { job: JobSummary }): JSX.Element {
  return (
    <span className="jp-smx-mark" data-status={job.status} aria-hidden="true">
      {MARKS[job.status]}
    </span>
  );
}

export function StopButton(props: {
  job: JobSummary;
  trans: TranslationBundle;
  onStop: (job: JobSummary) => void;
  tabIndex?: number;
}): JSX.Element {
  const { job, trans, onStop, tabIndex } = props;
  return (
    <IconButton
      label={trans.__('Stop %1', job.name)}
      icon={stopIcon}
      tabIndex={tabIndex}
      isDisabled={job.status === 'Stopping'}
      onClick={() => onStop(job)}
    />
  );
}

/** A button with a picture; its name is for those who do not see it, and for the pointer that rests on it. */
export function IconButton(props: {
  label: string;
  icon: LabIcon;
  tabIndex?: number;
  isDisabled?: boolean;
  onClick: () => void;
}): JSX.Element {
  const { label, icon, tabIndex, isDisabled, onClick } = props;
  return (
    <button
      type="button"
      className="jp-smx-button jp-smx-icon-button"
      aria-label={label}
      title={label}
      tabIndex={tabIndex}
      disabled={isDisabled}
      onClick={onClick}
    >
      <icon.react tag="span" width="14px" height="14px" />
    </button>
  );
}
