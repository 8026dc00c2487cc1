// How a job stands at a glance: the sign of its state, and how long it took so far.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { JobSummary } from '../_types';
import { elapsedSeconds } from '../format/jobText';
import { formatClock, formatDuration, formatSpokenDuration } from '../format/numbers';
import { STATUS_ICONS } from '../format/statusIcons';
import { isFinal } from '../state/state';

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
    <span className="jp-smx-time">
      <span aria-hidden="true">
        {isFinal(job) ? formatDuration(seconds, trans) : formatClock(seconds)}
      </span>
      <span className="jp-smx-spoken">{words}</span>
    </span>
  );
}

/** The state as one sign; the words beside it say the same. */
export function StatusIcon({ job }: { job: Pick<JobSummary, 'status'> }): JSX.Element {
  return (
    <span className="jp-smx-mark" data-status={job.status} aria-hidden="true">
      {STATUS_ICONS[job.status]}
    </span>
  );
}
