// How long the hosts of a job worked for it, as the server counted: a clock that people set may say something else.

import type { Attempt, Transition } from '../../_types';
import { ACTIVE_STATUSES } from '../../state/state';
import type { IJobRecord } from '../jobSource';

/** Seconds by which a clock may be off without anybody having set it. */
const CLOCK_TOLERANCE_SECONDS = 2;

/** Verdicts of code that nothing ended but itself. */
const OWN_END_STATES: readonly string[] = ['Completed', 'Failed'];

/** Seconds that the run at hand took, or takes so far; null where nobody counted. */
export function runSeconds(job: IJobRecord, now: number): number | null {
  if (job.ended_at !== null) {
    return job.ran_seconds;
  }
  return job.counted_from === null ? null : Math.max(0, now - job.counted_from);
}

/** Seconds that an earlier run took; by the clock only where nobody counted. */
export function attemptSeconds({ ran_seconds, started_at, ended_at }: Attempt): number | null {
  if (ran_seconds !== null) {
    return ran_seconds;
  }
  return started_at === null ? null : Math.max(0, ended_at - started_at);
}

/** Whether the moments of the run at hand cannot be true, since somebody set the clock meanwhile. */
export function wasClockChanged(job: IJobRecord, now: number): boolean {
  const counted = runSeconds(job, now);
  const began = currentRunSteps(job).find(step => ACTIVE_STATUSES.includes(step.status));
  if (counted === null || !began) {
    return false;
  }
  return Math.abs((job.ended_at ?? now) - began.start_time - counted) > CLOCK_TOLERANCE_SECONDS;
}

/** Whether an interruption ended the run at hand; code that completed or failed all the same ended by itself. */
export function wasInterrupted(job: IJobRecord): boolean {
  return (
    !OWN_END_STATES.includes(job.state) &&
    currentRunSteps(job).some(({ status }) => status === 'Interrupted')
  );
}

function currentRunSteps({ transitions }: IJobRecord): Transition[] {
  const since = transitions.map(step => step.status).lastIndexOf('Starting') + 1;
  return transitions.slice(since);
}
