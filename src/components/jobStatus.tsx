// How a job stands at a glance: the sign of its state, and how long it took so far.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { JobSummary } from '../_types';
import { elapsedSeconds } from '../format/jobText';
import { formatClock, formatDuration, formatSpokenDuration } from '../format/numbers';
import { STATUS_ICONS, WAITING_ICON } from '../format/statusIcons';
import { isFinal } from '../state/state';
import type { JobStep } from '../state/waiting';
import { isWaiting } from '../state/waiting';

/** How long a job took, or takes so far: a clock while it runs, the measured time afterwards. */
export function JobDuration(props: {
  job: Pick<JobSummary, 'status' | 'created_at' | 'ended_at'>;
  now: number;
  trans: TranslationBundle;
}): JSX.Element {
  const { job, now, trans } = props;
  const seconds = elapsedSeconds(job, now);
  const words = isFinal(job)
    ? trans.__('took %1', formatSpokenDuration(seconds, trans))
    : trans.__('for %1', formatSpokenDuration(seconds, trans));
  return (
    <span className="jp-smx-duration">
      <span aria-hidden="true">{isFinal(job) ? trans.__('took') : trans.__('for')}</span>{' '}
      <span className="jp-smx-time">
        <span aria-hidden="true">
          {isFinal(job) ? formatDuration(seconds, trans) : formatClock(seconds)}
        </span>
        <span className="jp-smx-spoken">{words}</span>
      </span>
    </span>
  );
}

/** The state as one sign; the words beside it say the same. */
export function StatusIcon({ job }: { job: JobStep }): JSX.Element {
  const isIdle = isWaiting(job);
  return (
    <span className="jp-smx-mark" data-status={isIdle ? 'Pending' : job.status} aria-hidden="true">
      {isIdle ? WAITING_ICON : STATUS_ICONS[job.status]}
    </span>
  );
}
