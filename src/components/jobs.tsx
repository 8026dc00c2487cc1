// Rows of jobs: the running ones with a stop button, the finished ones with their outcome.

import type { TranslationBundle } from '@jupyterlab/translation';
import { stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { JobSummary } from '../_types';
import { together } from '../arrays';
import { clock, elapsed, measured, spoken, startWords, stepWords } from '../format';
import { waitWords } from '../outlook';
import { isFinal } from '../state';
import { TasksRow } from './arrays';
import { JobExpected, JobMetrics, JobProgress } from './outlook';

interface IJobRowProps {
  job: JobSummary;
  now: number;
  trans: TranslationBundle;
  onStop: (job: JobSummary) => void;
}

export interface IJobListProps {
  jobs: readonly JobSummary[];
  now: number;
  trans: TranslationBundle;
  /** The accessible name of the list. */
  label: string;
  /** What stands there when there is no job. */
  empty: string;
  onStop: (job: JobSummary) => void;
}

export function JobList(props: IJobListProps): JSX.Element {
  const { jobs, label, empty, ...row } = props;
  if (jobs.length === 0) {
    return <p className="jp-smx-empty">{empty}</p>;
  }
  return (
    <ul className="jp-smx-list" aria-label={label}>
      {together(jobs).map(one =>
        'tasks' in one ? (
          <TasksRow key={one.id} row={one} trans={row.trans} />
        ) : (
          <JobRow key={one.id} job={one} {...row} />
        )
      )}
    </ul>
  );
}

function JobRow({ job, now, trans, onStop }: IJobRowProps): JSX.Element {
  const words = [
    stepWords(job, trans),
    waitWords(job, now, trans),
    job.instances,
    startWords(job, trans)
  ];
  return (
    <li className="jp-smx-row" data-status={job.status} data-job={job.id}>
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
        <div className="jp-smx-row-detail">{words.filter(Boolean).join(' · ')}</div>
        <JobMetrics job={job} trans={trans} />
      </div>
      {isFinal(job) ? null : <StopButton job={job} trans={trans} onStop={onStop} />}
    </li>
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
}): JSX.Element {
  const { job, trans, onStop } = props;
  const label = trans.__('Stop %1', job.name);
  return (
    <button
      type="button"
      className="jp-smx-button jp-smx-icon-button"
      aria-label={label}
      title={label}
      disabled={job.status === 'Stopping'}
      onClick={() => onStop(job)}
    >
      <stopIcon.react tag="span" width="14px" height="14px" />
    </button>
  );
}
