// How long the hosts of a job worked for it, as the server counted: the wall clock differs if it was set.

import type { Attempt, Transition } from '../../_types';
import { ACTIVE_STATUSES } from '../../state/state';
import type { IJobRecord } from '../jobSource';

/** Seconds by which the wall clock may differ without having been set. */
const CLOCK_TOLERANCE_SECONDS = 2;

/** Verdicts of code that ended by itself. */
const OWN_END_STATES: readonly string[] = ['Completed', 'Failed'];

/** Return the seconds that the current run took, or takes so far; null if they were not counted. */
export function runSeconds(job: IJobRecord, now: number): number | null {
  if (job.ended_at !== null) {
    return job.ran_seconds;
  }
  return job.counted_from === null ? null : Math.max(0, now - job.counted_from);
}

/** Return the seconds that an earlier run took; by the wall clock only if they were not counted. */
export function attemptSeconds({ ran_seconds, started_at, ended_at }: Attempt): number | null {
  if (ran_seconds !== null) {
    return ran_seconds;
  }
  return started_at === null ? null : Math.max(0, ended_at - started_at);
}

/** Return true if the moments of the current run are wrong, because the clock was set during it. */
export function wasClockChanged(job: IJobRecord, now: number): boolean {
  const counted = runSeconds(job, now);
  const began = currentRunSteps(job).find(step => ACTIVE_STATUSES.includes(step.status));
  if (counted === null || !began) {
    return false;
  }
  return Math.abs((job.ended_at ?? now) - began.start_time - counted) > CLOCK_TOLERANCE_SECONDS;
}

/** Return true if an interruption ended the current run; code that completed or failed nevertheless ended by itself. */
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
