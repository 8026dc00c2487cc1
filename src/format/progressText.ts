// Progress, expected times and metrics of a job in words: pure functions.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary } from '../_types';
import { isFinal } from '../state/state';
import { formatApproximateDuration, formatNumber } from './numbers';
import { plainText } from './plainText';

/** Metrics in one line, and characters of the name of one. */
const [SHOWN, METRIC_LIMIT] = [3, 60];

/** Return the progress of a running job, from 0 to 100; null if it is unknown or the job has a verdict. */
export function progressPercent(job: JobSummary): number | null {
  // A card that an older version saved has no such field.
  const fraction = job.progress?.fraction ?? null;
  // In floating point, 100 * 0.29 is slightly below 29.
  return fraction === null || isFinal(job) ? null : Math.floor(100 * fraction + 1e-9);
}

/** Return what a running job counts, as `epoch 7/10`; empty if it reports nothing. */
export function formatProgress(job: JobSummary): string {
  return isFinal(job) ? '' : (job.progress?.text ?? '');
}

/** Return the expected duration of a running job, as `of ~3 min`; empty if it is unknown. */
export function formatExpectedDuration(job: JobSummary, trans: TranslationBundle): string {
  if (!job.expectation || isFinal(job)) {
    return '';
  }
  return trans.__('of ~%1', formatApproximateDuration(job.expectation.seconds, trans));
}

/** Return the expected wait of a waiting job, as `begins in ~40 s`; empty if it is unknown. */
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

/** Return the newest values, as `loss 0.2134`; a value that is not a number is shown as such. */
export function formatMetrics(job: JobSummary, trans: TranslationBundle): string[] {
  const values = Object.entries(job.metrics ?? {});
  const shown = values
    .slice(0, SHOWN)
    .map(([name, value]) =>
      trans.__('%1 %2', plainText(name, METRIC_LIMIT), value === null ? 'nan' : formatNumber(value))
    );
  return values.length > SHOWN ? [...shown, '…'] : shown;
}
