// Lists of jobs: one row for each job, one for each array, which unfolds into its tasks.

import type { TranslationBundle } from '@jupyterlab/translation';
import React, { memo, useState } from 'react';

import type { ArraySummary, JobSummary, PoolSummary } from '../_types';
import type { IArrayActions } from '../components/arrayRow';
import { ArrayRow } from '../components/arrayRow';
import { InlineLine } from '../components/inlineText';
import type { IJobActions } from '../components/jobButtons';
import { JobButtons } from '../components/jobButtons';
import { JobName } from '../components/jobName';
import { JobExpectedDuration, JobMetrics, JobProgress, JobRemark } from '../components/jobProgress';
import { JobDuration, StatusIcon } from '../components/jobStatus';
import type { RowAttributes } from '../components/virtualList';
import { TWO_LINE_ROW, useLoadMore, VirtualList } from '../components/virtualList';
import {
  formatAllocation,
  formatImage,
  formatOtherEngine,
  formatStart,
  formatStep
} from '../format/jobText';
import { formatMoment, formatMoney } from '../format/numbers';
import { plainText } from '../format/plainText';
import { formatExpectedStart, formatMetrics } from '../format/progressText';
import { formatUsage } from '../format/usageText';
import type { ListRow } from '../state/arrays';
import { arrayStatus, buildRows, taskName } from '../state/arrays';
import { isFinal } from '../state/state';
import type { ITrend, Trends } from '../state/trends';

export interface IJobListProps extends IJobActions, IArrayActions {
  jobs: readonly JobSummary[];
  /** What is known of arrays, of whose tasks the list may have a part only. */
  arrays: ReadonlyMap<string, ArraySummary>;
  /** The pools that are known, by ID: a row names their machines. */
  pools: ReadonlyMap<string, PoolSummary>;
  now: number;
  /** What jobs that run used lately. */
  trends: Trends;
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
  /** The server does not answer: buttons and keys do nothing. */
  isDisabled: boolean;
}

/** Characters of a reason in a tooltip. */
const WHY_LIMIT = 600;

export function JobList(props: IJobListProps): JSX.Element {
  const { jobs, arrays, label, empty, scroller, page = null, onEnd, ...row } = props;
  const [open, fold] = useFolds();
  if (jobs.length === 0) {
    return <NoRows words={empty} page={page} trans={row.trans} onEnd={onEnd} />;
  }
  return (
    <VirtualList<ListRow>
      items={buildRows(jobs, arrays, open)}
      label={label}
      scroller={scroller}
      estimate={TWO_LINE_ROW}
      page={page}
      onEnd={onEnd}
      onOpen={one => ('job' in one ? row.onOpen?.(one.job) : fold(one.id, !one.isOpen))}
      onFold={(one, isOpen) => ('job' in one ? undefined : fold(one.id, isOpen))}
      onDelete={row.isDisabled ? undefined : one => stopOrDelete(one, row)}
    >
      {(one, place, isCurrent) =>
        'job' in one ? (
          <JobRow job={one.job} isTask={one.isTask} place={place} isCurrent={isCurrent} {...row} />
        ) : (
          <ArrayRow row={one} place={place} isCurrent={isCurrent} onFold={fold} {...row} />
        )
      }
    </VirtualList>
  );
}

/** What the Delete key does: stop what runs, delete what is over. */
function stopOrDelete(one: ListRow, acts: IJobActions & IArrayActions): void {
  if ('job' in one) {
    (isFinal(one.job) ? acts.onDelete : acts.onStop)?.(one.job);
  } else {
    // Not what the list shows of it: a task that is not listed may run.
    const isLive = arrayStatus(one.array) === 'InProgress';
    (isLive ? acts.onStopArray : acts.onDeleteArray)?.(one.array);
  }
}

/** Which rows are open, by their ids. */
function useFolds(): [ReadonlySet<string>, (id: string, isOpen: boolean) => void] {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const fold = (id: string, isOpen: boolean): void => {
    const others = [...open].filter(one => one !== id);
    setOpen(new Set(isOpen ? [...others, id] : others));
  };
  return [open, fold];
}

/** What stands there instead of rows; while older jobs may still match, they are read. */
function NoRows(props: {
  words: string;
  page: string | null;
  trans: TranslationBundle;
  onEnd?: () => void;
}): JSX.Element {
  const { words, page, trans, onEnd } = props;
  useLoadMore(page, onEnd);
  return (
    <p className="jp-smx-empty" role="status">
      {page === null ? words : trans.__('Searching older jobs…')}
    </p>
  );
}

export interface IJobRowProps extends IJobActions {
  job: JobSummary;
  /** Whether it stands under its array. */
  isTask: boolean;
  pools: ReadonlyMap<string, PoolSummary>;
  now: number;
  trends: Trends;
  trans: TranslationBundle;
  place: RowAttributes;
  isCurrent: boolean;
  isDisabled: boolean;
}

/** The place of a row changes while the list scrolls and grows; its content is drawn again only if it changed. */
function JobRow({ pools, trends, place, now, ...content }: IJobRowProps): JSX.Element {
  const { job, isTask } = content;
  return (
    <li
      className="jp-smx-row"
      data-status={job.status}
      data-job={job.id}
      data-task={isTask || undefined}
      {...place}
    >
      <JobRowContent
        {...content}
        pool={pools.get(job.pool)}
        trend={trends.get(job.id)}
        now={jobRowTime(job, now)}
      />
    </li>
  );
}

const MINUTE = 60;

/**
 * Return the moment that a row shows: a running job has a clock with seconds, a finished one the time of its end. The
 * moment stays the same until one of them shows something else, so that events do not draw the row again.
 */
function jobRowTime(job: Pick<JobSummary, 'created_at' | 'ended_at'>, now: number): number {
  const [since, step] = job.ended_at === null ? [job.created_at, 1] : [job.ended_at, MINUTE];
  // The middle of a step: rounding cannot move it into the step before.
  return since + (Math.floor((now - since) / step) + 0.5) * step;
}

type IJobRowContentProps = Omit<IJobRowProps, 'pools' | 'trends' | 'place'> & {
  pool?: PoolSummary;
  trend?: ITrend;
};

const JobRowContent = memo((props: IJobRowContentProps): JSX.Element => {
  const { job, isTask, pool, trend, now, trans } = props;
  return (
    <>
      <StatusIcon job={job} />
      <div className="jp-smx-row-text">
        <div className="jp-smx-row-title">
          <JobName name={isTask ? taskName(job, trans) : job.name} title={job.name} />
        </div>
        <Details job={job} isTask={isTask} pool={pool} now={now} trans={trans} />
        <JobProgress job={job} trans={trans} />
        <JobRemark job={job} trans={trans} />
        {isFinal(job) ? null : <JobMetrics job={job} trend={trend} trans={trans} />}
      </div>
      <JobButtons {...props} />
    </>
  );
});

/** The second line of a row: its state and its time first, then where it ran and what it measured. */
function Details(
  props: Pick<IJobRowProps, 'job' | 'isTask' | 'now' | 'trans'> & { pool?: PoolSummary }
): JSX.Element {
  const { job, isTask, pool, now, trans } = props;
  const isOver = isFinal(job);
  const state = [formatStep(job, trans), formatExpectedStart(job, now, trans)];
  const rest = [
    isOver && job.ended_at !== null ? formatMoment(job.ended_at, now) : '',
    formatStart(job, trans),
    ...(isTask ? [] : placeWords(job, pool)),
    isOver ? '' : formatAllocation(pool, now, trans),
    job.cost ? formatMoney(job.cost) : '',
    ...(isOver
      ? [...formatMetrics(job, trans), ...formatUsage(job, trans).map(one => one.words)]
      : [])
  ];
  const times = (
    <>
      <JobDuration job={job} now={now} trans={trans} />{' '}
      <JobExpectedDuration job={job} trans={trans} />
    </>
  );
  const why = job.status === 'Failed' ? plainText(job.message, WHY_LIMIT) : '';
  const title = [...state, ...rest].filter(Boolean).join(' · ');
  return <InlineLine words={[...state, times, ...rest]} title={why ? `${title}\n${why}` : title} />;
}

/** On which hosts a job runs; of a task its array says it. */
function placeWords(job: JobSummary, pool: PoolSummary | undefined): string[] {
  return [job.instances, formatOtherEngine(job.engine, pool?.machines), formatImage(job.image)];
}
