// Rows of warm pools: what they are, how long they stay, and the two things that one can do about that.

import type { TranslationBundle } from '@jupyterlab/translation';
import React, { memo } from 'react';

import type { JobSummary, PoolSummary } from '../_types';
import { InlineList, OptionText } from '../components/inlineText';
import { JobName } from '../components/jobName';
import { TextButton } from '../components/textButton';
import { TWO_LINE_ROW, VirtualList } from '../components/virtualList';
import {
  formatAllocation,
  formatEngine,
  formatImage,
  formatRemark,
  idleCost,
  idleNodeHours,
  remainingSeconds
} from '../format/jobText';
import {
  formatClock,
  formatDuration,
  formatMoney,
  formatNodeHours,
  formatSpokenDuration
} from '../format/numbers';
import { plainText, TEXT_LIMIT } from '../format/plainText';
import { formatExpectedStart } from '../format/progressText';
import type { IPool } from '../state/state';

interface IPoolActions {
  /** Absent, as the other, where its command was switched off. */
  onExtend?: (pool: PoolSummary) => void;
  onRelease?: (pool: PoolSummary) => void;
  onShell?: (pool: PoolSummary) => void;
}

export interface IPoolListProps extends IPoolActions {
  pools: readonly IPool[];
  /** The running jobs, by the IDs of their pools. */
  jobs: ReadonlyMap<string, JobSummary>;
  now: number;
  trans: TranslationBundle;
  /** What stands there when there is no pool. */
  empty: string;
  /** The element in which the list scrolls. */
  scroller: HTMLElement;
  /** The server does not answer: the buttons do nothing. */
  isDisabled: boolean;
}

export function PoolList(props: IPoolListProps): JSX.Element {
  const { pools, jobs, empty, now, scroller, ...row } = props;
  const { trans } = row;
  if (pools.length === 0) {
    return (
      <p className="jp-smx-empty">
        <OptionText words={empty} />
      </p>
    );
  }
  return (
    <VirtualList<IPool>
      items={pools}
      label={trans.__('Warm pools')}
      scroller={scroller}
      estimate={TWO_LINE_ROW}
      hasRowFocus={false}
    >
      {(pool, place) => {
        // Hosts that do not exist yet wait for what the job says.
        const job = pool.state === 'Provisioning' ? jobs.get(pool.id) : undefined;
        return (
          <li className="jp-smx-row" data-state={pool.state} data-pool={pool.id} {...place}>
            <PoolRowContent pool={pool} job={job} now={poolRowTime(pool, job, now)} {...row} />
          </li>
        );
      }}
    </VirtualList>
  );
}

/**
 * Return the moment that a row shows. It stays the same until its countdown shows something else, and always if nothing
 * in the row depends on the time, so that events do not draw the row again.
 */
function poolRowTime(pool: IPool, job: JobSummary | undefined, now: number): number {
  const end = pool.expires_at ?? pool.allocation_ends_at ?? job?.expected_start_at ?? null;
  // The middle of a second: rounding cannot move it into the second before.
  return end === null ? 0 : end - Math.floor(end - now) - 0.5;
}

interface IPoolRowContentProps extends IPoolActions, Pick<IPoolListProps, 'trans' | 'isDisabled'> {
  pool: IPool;
  /** The job for which hosts are provisioned. */
  job?: JobSummary;
  now: number;
}

const PoolRowContent = memo((props: IPoolRowContentProps): JSX.Element => {
  const { pool, job, now, trans } = props;
  const left = remainingSeconds(pool, now);
  return (
    <div className="jp-smx-row-text">
      <div className="jp-smx-row-title">
        <JobName name={pool.name} title={trans.__('%1: %2', pool.name, pool.instances)} />
        <Countdown left={left} trans={trans} />
      </div>
      <InlineList words={poolWords(pool, job, now, trans)} />
      <Remark text={job ? formatRemark(job, trans) : ''} />
      <Remark text={pool.unreachable} />
      <Remark text={pool.disk_wait} />
      <PoolReason pool={pool} trans={trans} />
      {left === null ? null : <PoolButtons {...props} />}
    </div>
  );
});

/** A sentence of the server about a pool. */
function Remark({ text }: { text: string }): JSX.Element | null {
  return text ? <p className="jp-smx-says">{plainText(text, TEXT_LIMIT)}</p> : null;
}

function Countdown(props: { left: number | null; trans: TranslationBundle }): JSX.Element | null {
  const { left, trans } = props;
  if (left === null) {
    return null;
  }
  return (
    <span className="jp-smx-time" role="timer" aria-live="off" data-soon={left <= 120}>
      <Dial left={left} />
      <span aria-hidden="true">{formatClock(left)}</span>
      <span className="jp-smx-spoken">
        {trans.__('expires in %1', formatSpokenDuration(left, trans))}
      </span>
    </span>
  );
}

const HOUR = 3600;

/** What is left, as on a kitchen timer: a full turn is an hour. */
function Dial({ left }: { left: number }): JSX.Element {
  return (
    <svg className="jp-smx-dial" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <circle cx="8" cy="8" r="6" />
      {/* A circle that is 100 long begins at three o'clock. */}
      <circle
        className="jp-smx-dial-left"
        cx="8"
        cy="8"
        r="6"
        pathLength={100}
        strokeDasharray={`${Math.min(100, (100 * left) / HOUR)} 100`}
        transform="rotate(-90 8 8)"
      />
    </svg>
  );
}

function PoolButtons(
  props: IPoolActions & { pool: PoolSummary; isDisabled: boolean; trans: TranslationBundle }
): JSX.Element {
  const { pool, isDisabled, trans, onExtend, onRelease, onShell } = props;
  return (
    <div className="jp-smx-buttons">
      <PoolButton
        pool={pool}
        words={trans.__('+15 min')}
        label={trans.__('Extend pool %1 by 15 minutes', pool.name)}
        isDisabled={isDisabled}
        act={onExtend}
      />
      <PoolButton
        pool={pool}
        words={trans.__('Release')}
        label={trans.__('Release pool %1', pool.name)}
        isDisabled={isDisabled}
        act={onRelease}
      />
      <PoolButton
        pool={pool}
        words={trans.__('Shell')}
        label={trans.__('Open a shell on a host of pool %1', pool.name)}
        isDisabled={isDisabled}
        act={onShell}
      />
    </div>
  );
}

function PoolButton(props: {
  pool: PoolSummary;
  words: string;
  label: string;
  isDisabled: boolean;
  act?: (pool: PoolSummary) => void;
}): JSX.Element | null {
  const { pool, words, label, isDisabled, act } = props;
  return act ? (
    <TextButton
      label={words}
      describedAs={label}
      isDisabled={isDisabled}
      onClick={() => act(pool)}
    />
  ) : null;
}

/** Why it is there, and what its hosts have imported ahead for the next job. */
function PoolReason(props: { pool: PoolSummary; trans: TranslationBundle }): JSX.Element | null {
  const { pool, trans } = props;
  const ahead =
    pool.preloaded.length > 0 ? trans.__('imported: %1', pool.preloaded.join(', ')) : '';
  const words = plainText([pool.reason, ahead].filter(Boolean).join(' '), TEXT_LIMIT);
  return words ? (
    <div className="jp-smx-pool-reason" title={words}>
      {words}
    </div>
  ) : null;
}

function poolWords(
  pool: IPool,
  job: JobSummary | undefined,
  now: number,
  trans: TranslationBundle
): string[] {
  const saved = pool.saved_seconds;
  const cost = idleCost(pool, now);
  const nodeHours = idleNodeHours(pool, now);
  return [
    pool.instances,
    formatEngine(pool.engine, pool.machines),
    formatImage(pool.image),
    stateWords(pool, trans),
    job ? formatExpectedStart(job, now, trans) : '',
    formatAllocation(pool, now, trans),
    pool.jobs_served > 0 ? trans._n('%1 job', '%1 jobs', pool.jobs_served) : '',
    saved > 0 ? trans.__('saved %1', formatDuration(saved, trans)) : '',
    cost ? trans.__('idle %1', formatMoney(cost)) : '',
    nodeHours ? trans.__('idle %1', formatNodeHours(nodeHours, trans)) : ''
  ];
}

function stateWords(pool: PoolSummary, trans: TranslationBundle): string {
  switch (pool.state) {
    case 'Provisioning':
      return trans.__('Provisioning');
    case 'InUse':
      return pool.job ? trans.__('In use by %1', pool.job) : trans.__('In use');
    case 'Available':
      return pool.last_job
        ? trans.__('Available, last job %1', pool.last_job)
        : trans.__('Available');
    default:
      return pool.state;
  }
}
