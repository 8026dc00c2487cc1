// Whether a job waits or runs: the views count and mark the two apart.

import type { JobSummary } from '../_types';

/** Begins the message of a job that waits in the queue of its engine: `tests/policy/test_page_sentences.py` compares. */
const WAITS_AT_ENGINE = 'Waiting at the engine ';

/** What says whether a job waits. */
export type JobStep = Pick<JobSummary, 'status' | 'secondary_status' | 'queue_position'> &
  Partial<Pick<JobSummary, 'message'>>;

/** Return true if a job waits for its turn, for another job, an environment or its engine: no host works for it. */
export function isWaiting(job: JobStep): boolean {
  const isQueued = job.queue_position !== null && job.queue_position !== undefined;
  const waitsAtEngine =
    job.secondary_status === 'Starting' && job.message?.startsWith(WAITS_AT_ENGINE) === true;
  const isPending = isQueued || waitsAtEngine || job.secondary_status === 'Pending';
  return job.status === 'InProgress' && isPending;
}
