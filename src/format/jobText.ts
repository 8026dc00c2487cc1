// Numbers and states in words: pure functions, so that every view says the same thing in the same way.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Image, JobSummary, PoolSummary, SecondaryStatus } from '../_types';
import type { IPool, IState } from '../state/state';
import { idlePools, isFinal, runningJobs } from '../state/state';

const HOUR = 3600;

/** Digits that a value of a metric is told with. */
export const METRIC_DIGITS = 4;
const [SMALL, LARGE] = [1e-4, 1e6];

/** A value of a metric: `0.2134`, `123456`, `1.23e-5`; zeros in the place of digits would look measured. */
export function formatNumber(value: number, digits = METRIC_DIGITS): string {
  const size = Math.abs(value);
  if (size > 0 && (size < SMALL || size >= LARGE)) {
    return value.toExponential(digits - 2).replace(/\.?0+e/, 'e');
  }
  const whole = String(Math.floor(size)).length;
  return String(Number(value.toPrecision(Math.max(digits, whole))));
}

/** `mm:ss`, or `h:mm:ss` from one hour on; never negative. */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (n: number): string => String(n).padStart(2, '0');
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${two(m)}:${two(s)}`;
}

/** A duration that is spoken: `7 minutes 52 seconds`. */
export function formatLongDuration(seconds: number, trans: TranslationBundle): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const parts: string[] = [];
  if (h > 0) {
    parts.push(trans._n('%1 hour', '%1 hours', h));
  }
  if (m > 0) {
    parts.push(trans._n('%1 minute', '%1 minutes', m));
  }
  if (h === 0 && (s > 0 || m === 0)) {
    parts.push(trans._n('%1 second', '%1 seconds', s));
  }
  return parts.join(' ');
}

/** A measured time with the unit that suits it: `6 ms`, `1.9 s`, `02:14`. */
export function formatDuration(seconds: number, trans: TranslationBundle): string {
  // What would be rounded up to the next unit is said in the next unit.
  const thousandths = Math.round(seconds * 1000);
  if (thousandths < 1000) {
    return trans.__('%1 ms', thousandths);
  }
  const tenths = Math.round(seconds * 10) / 10;
  return tenths < 60 ? trans.__('%1 s', tenths.toFixed(1)) : formatClock(Math.max(60, seconds));
}

/** A time that is measured finely, as that of a step: `0.4 ms`, `86.2 ms`, `1.19 s`. */
export function formatPreciseDuration(seconds: number, trans: TranslationBundle): string {
  const thousandths = Number((seconds * 1000).toPrecision(3));
  const short = Number(seconds.toPrecision(3));
  if (thousandths < 1000) {
    return trans.__('%1 ms', thousandths);
  }
  return short < 10 ? trans.__('%1 s', short) : formatDuration(seconds, trans);
}

/** Seconds that a job took until its end, or until `now`. */
export function elapsedSeconds(
  job: Pick<JobSummary, 'created_at' | 'ended_at'>,
  now: number
): number {
  return Math.max(0, (job.ended_at ?? now) - job.created_at);
}

/** Seconds until a pool ends; null while a job uses it. */
export function remainingSeconds(pool: PoolSummary, now: number): number | null {
  return pool.expires_at === null ? null : Math.max(0, pool.expires_at - now);
}

/** What a pool cost while it waited for jobs, up to now; null where nobody knows a price. */
export function idleCost(pool: IPool, now: number): number | null {
  if (pool.idle_cost === null) {
    return null;
  }
  const since = pool.expires_at === null ? 0 : Math.max(0, now - (pool.reported_at ?? now));
  return pool.idle_cost + ((pool.price_per_hour ?? 0) * since) / HOUR;
}

/** The step that a job is at, in the words of SageMaker's `SecondaryStatus`, translated. */
export function formatStep(job: JobSummary, trans: TranslationBundle): string {
  if (job.queue_position !== null && !isFinal(job)) {
    return trans.__('Queued, position %1', job.queue_position);
  }
  if (job.secondary_status === 'Pending') {
    return pendingWords(job, trans);
  }
  return wordsUnderWay(job, trans) ?? verdictWords(job, trans);
}

function wordsUnderWay(job: JobSummary, trans: TranslationBundle): string | undefined {
  const words: Partial<Record<SecondaryStatus, string>> = {
    Starting: trans.__('Starting'),
    Downloading: trans.__('Downloading'),
    Training: job.kind === 'process' ? trans.__('Processing') : trans.__('Training'),
    Interrupted: trans.__('Interrupted: its spot instances are taken back'),
    Stopping: trans.__('Stopping'),
    Uploading: trans.__('Uploading')
  };
  return words[job.secondary_status];
}

/** Whoever stands in no line waits for something with words of its own: an environment that is built, say. */
function pendingWords(job: JobSummary, trans: TranslationBundle): string {
  return (job.start === 'none' && job.message) || trans.__('Pending');
}

/** What is done before a job's code runs, in a sentence of the server; empty where its step says all. */
export function formatPreparation(job: JobSummary, trans: TranslationBundle): string {
  const isUnderWay = ['Pending', 'Starting', 'Downloading'].includes(job.secondary_status);
  return isUnderWay && job.message !== formatStep(job, trans) ? job.message : '';
}

/** What the server says of steps that go as they should, most of them in moments: `tests/model/test_status.py` compares. */
const USUAL = [
  'Waiting for room on the engine.',
  'Launching requested instances.',
  'Reusing a warm pool.',
  'Copying the input channels.',
  'Running the code.',
  'Its spot instances are taken back.',
  'Stopping the job.',
  'Bringing the outputs home.'
];

/** What else a job that is not over waits for: an image that is downloaded, say, or hosts that do not answer. */
export function formatRemark(job: JobSummary, trans: TranslationBundle): string {
  const isSaid = isFinal(job) || job.queue_position !== null || USUAL.includes(job.message);
  return isSaid || job.message === formatStep(job, trans) ? '' : job.message;
}

function verdictWords(job: JobSummary, trans: TranslationBundle): string {
  switch (job.secondary_status) {
    case 'Completed':
      return trans.__('Completed');
    case 'MaxRuntimeExceeded':
      return trans.__('Stopped at its maximum run time');
    case 'MaxWaitTimeExceeded':
      return trans.__('Stopped at its maximum wait time');
    case 'Stopped':
      return trans.__('Stopped');
    default:
      return failureWords(job, trans);
  }
}

function failureWords(job: JobSummary, trans: TranslationBundle): string {
  if (!job.failure_type) {
    // Where no code of the user's raised anything the reason begins with whose failure it is, as `ClientError:`.
    const [, whose = ''] = /^(\w+Error): /.exec(job.message) ?? [];
    return whose ? trans.__('Failed: %1', whose) : trans.__('Failed');
  }
  return job.failure_line === null
    ? trans.__('Failed: %1', job.failure_type)
    : trans.__('Failed: %1, line %2', job.failure_type, job.failure_line);
}

/** Warm or cold, with the time to the first line of user code when it is known; empty before that. */
export function formatStart(job: JobSummary, trans: TranslationBundle): string {
  if (job.start !== 'warm' && job.start !== 'cold') {
    return '';
  }
  if (job.first_line_seconds === null) {
    return job.start === 'warm' ? trans.__('warm') : trans.__('cold');
  }
  const time = formatDuration(job.first_line_seconds, trans);
  return job.start === 'warm' ? trans.__('warm, %1', time) : trans.__('cold, %1', time);
}

/** Digits of an id; enough to tell two images apart. */
const DIGITS = 12;

/**
 * What hosts are made of, as `train:1 (3fa85f645717)`: of the name what follows its registry, and the first digits of the
 * id as soon as that is known. Empty where they are made of no image, and where an older server says nothing of it.
 */
export function formatImage(image: Pick<Image, 'name' | 'id'> | null | undefined): string {
  if (!image) {
    return '';
  }
  const id = digitsOf(image.id);
  const [path, digest] = image.name.split('@');
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (id !== '' && id === digitsOf(image.name)) {
    return id;
  }
  const short = digest ? `${name}@${digitsOf(digest)}` : name;
  return id ? `${short} (${id})` : short;
}

function digitsOf(id: string): string {
  return id.slice(id.lastIndexOf(':') + 1).slice(0, DIGITS);
}

/** The one sentence of a toast about a job that ended. */
export function formatJobEnd(job: JobSummary, trans: TranslationBundle): string {
  const time = formatDuration(elapsedSeconds(job, job.ended_at ?? job.created_at), trans);
  switch (job.status) {
    case 'Completed':
      return trans.__('%1 completed after %2', job.name, time);
    case 'Stopped':
      return trans.__('%1 was stopped after %2', job.name, time);
    default:
      return trans.__('%1: %2', job.name, failureWords(job, trans));
  }
}

/** An amount of US dollars; what rounds to nothing is still not free. */
export function formatMoney(dollars: number): string {
  return dollars > 0 && dollars < 0.005 ? '< $0.01' : `$${dollars.toFixed(2)}`;
}

/** Dollars as a bill has them: cents, or three digits that count below ten of them, and never in powers of ten. */
export function formatExactMoney(dollars: number): string {
  const size = Number(dollars.toPrecision(3));
  const places = size > 0 && size < 0.1 ? Math.min(20, 2 - Math.floor(Math.log10(size))) : 2;
  return `$${dollars.toFixed(places)}`;
}

/** What the jobs that ended since midnight cost, as `$0.41 today`; empty where nothing has a price. */
export function formatCostToday(state: IState, now: number, trans: TranslationBundle): string {
  const midnight = new Date(now * 1000).setHours(0, 0, 0, 0) / 1000;
  const over = [...state.jobs.values()].filter(isFinal);
  const costs = over.filter(job => (job.ended_at ?? 0) >= midnight).map(job => job.cost ?? 0);
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  if (total === 0) {
    return '';
  }
  const sum = formatMoney(total);
  // Everything that is not here was made before the edge of the page; some older jobs are here all the same.
  const edge = state.cursor === null ? null : state.jobs.get(state.cursor);
  const isWhole = edge === null || (edge !== undefined && edge.created_at < midnight);
  return isWhole ? trans.__('%1 today', sum) : trans.__('over %1 today', sum);
}

/** The line that sums up: `3 running · 2 warm · $0.41 today`. */
export function formatCounts(state: IState, now: number, trans: TranslationBundle): string {
  const words = [
    trans.__('%1 running', runningJobs(state).length),
    trans.__('%1 warm', idlePools(state).length),
    formatCostToday(state, now, trans)
  ];
  return words.filter(Boolean).join(' · ');
}
