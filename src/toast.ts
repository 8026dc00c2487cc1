// What to say when jobs end: one toast for each, one for all when many end together.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary } from './_types';
import { batchSentence, endSentence } from './format';

type Kind = 'success' | 'error' | 'info';

export interface IToast {
  sentence: string;
  kind: Kind;
  /** The job that it is about; null where it is about many. */
  job: string | null;
}

/** More jobs than this that end together share one toast. */
const BATCH = 3;

const KINDS: Partial<Record<JobSummary['status'], Kind>> = {
  Completed: 'success',
  Failed: 'error'
};

/**
 * Decide what to say about jobs that ended together.
 */
export function toastsFor(jobs: readonly JobSummary[], trans: TranslationBundle): IToast[] {
  if (jobs.length > BATCH) {
    const kind = jobs.some(job => job.status === 'Failed') ? 'error' : 'success';
    return [{ sentence: batchSentence(jobs, trans), kind, job: null }];
  }
  return jobs.map(job => ({
    sentence: endSentence(job, trans),
    kind: KINDS[job.status] ?? 'info',
    job: job.id
  }));
}
