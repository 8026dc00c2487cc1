// How far a job is, when it will end or begin, and what it measures: pure functions that give words.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary } from '../_types';
import { isFinal } from '../state/state';
import { formatApproximateDuration, formatNumber } from './numbers';

/** Metrics in one line. */
const SHOWN = 3;

/** How far a running job is, from 0 to 100; null where nobody knows or it has its verdict. */
export function progressPercent(job: JobSummary): number | null {
  // A card that an older version saved has no such field.
  const fraction = job.progress?.fraction ?? null;
  // 100 * 0.29 is a hair less than 29.
  return fraction === null || isFinal(job) ? null : Math.floor(100 * fraction + 1e-9);
}

/** What a running job counts, as `epoch 7/10`; empty where it says nothing. */
export function formatProgress(job: JobSummary): string {
  return isFinal(job) ? '' : (job.progress?.text ?? '');
}

/** How long a running job is expected to take in all, as `of ~3 min`; empty where nobody knows. */
export function formatExpectedDuration(job: JobSummary, trans: TranslationBundle): string {
  if (!job.expectation || isFinal(job)) {
    return '';
  }
  return trans.__('of ~%1', formatApproximateDuration(job.expectation.seconds, trans));
}

/** How long a waiting job is expected to wait, as `begins in ~40 s`; empty where nobody knows. */
export function formatExpectedStart(
  job: JobSummary,
  now: number,
  trans: TranslationBundle
): string {
  const left = (job.expected_start_at ?? 0) - now;
  return left > 0 && !isFinal(job)
    ? trans.__('starts in ~%1', formatApproximateDuration(left, trans))
    : '';
}

/** The newest values, as `loss 0.2134`; what is no number is said to be none. */
export function formatMetrics(job: JobSummary, trans: TranslationBundle): string[] {
  const values = Object.entries(job.metrics ?? {});
  const shown = values
    .slice(0, SHOWN)
    .map(([name, value]) => trans.__('%1 %2', name, value === null ? 'nan' : formatNumber(value)));
  return values.length > SHOWN ? [...shown, '…'] : shown;
}
