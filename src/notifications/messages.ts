// The sentences of notifications: names, outcomes, times and money, never a message, a line of code or a value.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary, PoolSummary } from '../_types';
import { formatJobEnd } from '../format/jobText';
import { formatApproximateDuration, formatMoney } from '../format/numbers';
import { plainText } from '../format/plainText';

export type ToastType = 'success' | 'error' | 'info';

/** Characters of a pool's hosts, of the reason of its end, and of a name; Lab cuts a message after 140. */
const [HOSTS, REASON, NAME] = [40, 80, 80];

/** Return the look of a notification about these jobs: that of a failure if there is one, then that of a completion. */
export function toastType(jobs: readonly JobSummary[]): ToastType {
  if (jobs.some(job => job.status === 'Failed')) {
    return 'error';
  }
  return jobs.some(job => job.status === 'Completed') ? 'success' : 'info';
}

/** Return one sentence about one or many jobs that ended; for tasks of one array it names the array. */
export function formatEnded(jobs: readonly JobSummary[], trans: TranslationBundle): string {
  if (jobs.length === 1) {
    return formatJobEnd(jobs[0], trans);
  }
  const array = jobs[0].array;
  const isFailed = jobs.every(job => job.status === 'Failed');
  const sentence = isFailed
    ? formatFailedJobs(jobs, trans)
    : trans.__('%1 jobs ended: %2', jobs.length, outcomes(jobs, trans).join(', '));
  const isOne = array !== null && jobs.every(job => job.array?.id === array.id);
  const name = isOne ? plainText(array.title || array.name, NAME) : '';
  return name ? trans.__('%1: %2', name, sentence) : sentence;
}

/** Describe several jobs that failed, as `3 jobs failed at line 14`. */
function formatFailedJobs(jobs: readonly JobSummary[], trans: TranslationBundle): string {
  const line = commonLine(jobs);
  return line === null
    ? trans.__('%1 jobs failed', jobs.length)
    : trans.__('%1 jobs failed at line %2', jobs.length, line);
}

/**
 * Return one sentence about everything that ended while the page was hidden, as `While you were away: 2 finished, 1
 * failed at line 14`. `isPart`: there may be more, older than what was read.
 */
export function formatEndedWhileAway(
  jobs: readonly JobSummary[],
  isPart: boolean,
  trans: TranslationBundle
): string {
  if (jobs.length === 1 && !isPart) {
    return trans.__('While you were away: %1', formatJobEnd(jobs[0], trans));
  }
  const words = outcomes(jobs, trans).join(', ');
  return isPart
    ? trans.__('While you were away: at least %1', words)
    : trans.__('While you were away: %1', words);
}

function outcomes(jobs: readonly JobSummary[], trans: TranslationBundle): string[] {
  const failed = jobs.filter(job => job.status === 'Failed');
  const finished = jobs.filter(job => job.status === 'Completed').length;
  const stopped = jobs.length - failed.length - finished;
  const parts: string[] = [];
  if (finished > 0) {
    parts.push(trans.__('%1 finished', finished));
  }
  if (failed.length > 0) {
    parts.push(failures(failed, trans));
  }
  if (stopped > 0) {
    parts.push(trans.__('%1 stopped', stopped));
  }
  return parts;
}

/** Return the line at which all of them failed, which suggests one cause; null if the lines differ. */
function commonLine(failed: readonly JobSummary[]): number | null {
  const line = failed[0].failure_line;
  return failed.every(job => job.failure_line === line) ? line : null;
}

function failures(failed: readonly JobSummary[], trans: TranslationBundle): string {
  const line = commonLine(failed);
  return line !== null
    ? trans.__('%1 failed at line %2', failed.length, line)
    : trans.__('%1 failed', failed.length);
}

/** Return title and body of a desktop notification: the outcome, and below it which jobs or on which hosts. */
export function formatDesktopNotification(
  jobs: readonly JobSummary[],
  trans: TranslationBundle
): { title: string; body: string } {
  const title = formatEnded(jobs, trans);
  if (jobs.length === 1) {
    return { title, body: jobs[0].instances };
  }
  const names = jobs.slice(-NAMED).map(job => plainText(job.name, NAME));
  const more = jobs.length - names.length;
  const body = names.join(', ');
  return { title, body: more > 0 ? trans.__('%1 and %2 more', body, more) : body };
}

const NAMED = 3;

/** Say until when a pool stays, which jobs can use it, and what it costs to keep it for `seconds` more. */
export function formatPoolPrompt(
  pool: PoolSummary,
  now: number,
  seconds: number,
  endsAt: string,
  trans: TranslationBundle
): string {
  const left = formatApproximateDuration(Math.max(0, (pool.expires_at ?? now) - now), trans);
  const hosts =
    pool.instances.length > HOSTS ? `${pool.instances.slice(0, HOSTS - 1)}…` : pool.instances;
  return [
    trans.__('Pool %1 expires in %2, at %3.', hosts, left, endsAt),
    worth(pool, trans),
    price(pool, seconds, trans)
  ]
    .filter(Boolean)
    .join(' ');
}

function worth(pool: PoolSummary, trans: TranslationBundle): string {
  const jobs = trans._n('%1 job', '%1 jobs', pool.jobs_served);
  return pool.saved_seconds > 0
    ? trans.__('%1 used it, %2 saved.', jobs, formatApproximateDuration(pool.saved_seconds, trans))
    : trans.__('%1 used it.', jobs);
}

function price(pool: PoolSummary, seconds: number, trans: TranslationBundle): string {
  const longer = formatApproximateDuration(seconds, trans);
  if (pool.price_per_hour === null) {
    return '';
  }
  return pool.price_per_hour > 0
    ? trans.__('Another %1: %2.', longer, formatMoney((pool.price_per_hour * seconds) / 3600))
    : trans.__('Another %1: free.', longer);
}

/** The reason of the server for a release that a user asked for: `tests/policy/test_page_sentences.py` compares. */
const RELEASED = 'Released by the user.';

/** The reasons of the server for ends that a user expects: `tests/policy/test_page_sentences.py` compares. */
const EXPECTED: readonly string[] = [
  'The keep-alive expired.',
  "Its hosts' time was over before the controller came back.",
  'Every task of its array has started.',
  'The job asked for no keep-alive.'
];

/** Return true if a pool ended as its user expects; then there is nothing to say. */
export function isExpectedEnd({ reason }: Pick<PoolSummary, 'reason'>): boolean {
  return EXPECTED.includes(reason);
}

/** That kept pools ended early: one with the reason, several as a number. `keptUntil` is a moment in words. */
export function formatPoolEnds(
  pools: readonly PoolSummary[],
  keptUntil: string,
  trans: TranslationBundle
): string {
  if (pools.length !== 1) {
    return trans.__('%1 warm pools ended before their keep-alive.', pools.length);
  }
  const [{ name, reason }] = pools;
  const shown = plainText(name, HOSTS);
  const why =
    reason === RELEASED ? trans.__('Released by another client.') : plainText(reason, REASON);
  return why
    ? trans.__('Pool %1, kept until %2, has ended: %3', shown, keptUntil, why)
    : trans.__('Pool %1, kept until %2, has ended.', shown, keptUntil);
}
