// Jobs and pools in words: pure functions, so that every view says the same thing in the same way.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Image, JobSummary, PoolSummary, SecondaryStatus } from '../_types';
import type { IPool, IState } from '../state/state';
import { idlePools, isFinal, livePools, runningJobs } from '../state/state';
import { isWaiting } from '../state/waiting';
import { formatFailure } from './failureText';
import { formatApproximateDuration, formatDuration, formatMoney } from './numbers';
import { plainText } from './plainText';

const HOUR = 3600;

/** Seconds that a job took until its end, or until `now`. */
export function elapsedSeconds(
  job: Pick<JobSummary, 'created_at' | 'ended_at'>,
  now: number
): number {
  return Math.max(0, (job.ended_at ?? now) - job.created_at);
}

/** Seconds until a pool ends, by its keep-alive or with the allocation of its hosts; null while a job uses it. */
export function remainingSeconds(pool: PoolSummary, now: number): number | null {
  if (pool.expires_at === null) {
    return null;
  }
  // An older server says nothing of allocations.
  const end = Math.min(pool.expires_at, pool.allocation_ends_at ?? Infinity);
  return Math.max(0, end - now);
}

/** When the platform of an engine ends hosts, as `allocation ends in 25 min`; empty if it does not, or is not known. */
export function formatAllocation(
  pool: Pick<PoolSummary, 'allocation_ends_at'> | undefined,
  now: number,
  trans: TranslationBundle
): string {
  const end = pool?.allocation_ends_at ?? null;
  if (end === null) {
    return '';
  }
  return end > now
    ? trans.__('allocation ends in %1', formatApproximateDuration(end - now, trans))
    : trans.__('allocation is over');
}

/** Return what a pool has cost while idle, up to now; null if the price is unknown. */
export function idleCost(pool: IPool, now: number): number | null {
  if (pool.idle_cost === null) {
    return null;
  }
  const since = pool.expires_at === null ? 0 : Math.max(0, now - (pool.reported_at ?? now));
  return pool.idle_cost + ((pool.price_per_hour ?? 0) * since) / HOUR;
}

/** Return the node hours that a pool has held idle in its allocation, up to now; 0 if its idle time has a price. */
export function idleNodeHours(pool: IPool, now: number): number {
  const since = pool.expires_at === null ? 0 : Math.max(0, now - (pool.reported_at ?? now));
  // An older server counts no nodes.
  return ((pool.nodes ?? 0) * (pool.idle_seconds + since)) / HOUR;
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
    Interrupted: trans.__('Interrupted: spot instances reclaimed'),
    Stopping: trans.__('Stopping'),
    Uploading: trans.__('Uploading')
  };
  return words[job.secondary_status];
}

/** Return the words for a job that is in no queue: it waits for something else, such as an environment. */
function pendingWords(job: JobSummary, trans: TranslationBundle): string {
  return (job.start === 'none' && job.message) || trans.__('Pending');
}

/** Return the server's sentence on the preparation of a job before its code runs; empty if its step says all. */
export function formatPreparation(job: JobSummary, trans: TranslationBundle): string {
  const isUnderWay = ['Pending', 'Starting', 'Downloading'].includes(job.secondary_status);
  return isUnderWay && job.message !== formatStep(job, trans) ? job.message : '';
}

/** The server's messages of steps that go as expected, most of them short: `tests/model/test_status.py` compares. */
const USUAL = [
  'Waiting for capacity.',
  'Launching requested instances.',
  'Reusing a warm pool.',
  'Copying the input channels.',
  'Running the code.',
  'Its spot instances are being reclaimed.',
  'Stopping the job.',
  'Uploading outputs.'
];

/** Begins the message of a job that completed and lost variables: `tests/model/test_lost_variables.py` compares. */
const COMPLETED_BUT = 'The job completed, but ';

/**
 * Return what else an unfinished job waits for, such as the download of an image, hosts that do not answer, or room on
 * a disk; or what a completed job lost.
 */
export function formatRemark(job: JobSummary, trans: TranslationBundle): string {
  if (job.status === 'Completed') {
    return job.message.startsWith(COMPLETED_BUT) ? job.message : '';
  }
  const isSaid = isFinal(job) || USUAL.includes(job.message);
  return isSaid || job.message === formatStep(job, trans) ? '' : job.message;
}

function verdictWords(job: JobSummary, trans: TranslationBundle): string {
  switch (job.secondary_status) {
    case 'Completed':
      return trans.__('Completed');
    case 'MaxRuntimeExceeded':
      return trans.__('Stopped at maximum run time');
    case 'MaxWaitTimeExceeded':
      return trans.__('Stopped at maximum wait time');
    case 'Stopped':
      return trans.__('Stopped');
    default:
      return formatFailure(job, trans);
  }
}

/** Warm or cold, with the time to the first line of user code when it is known; empty before that. */
export function formatStart(job: JobSummary, trans: TranslationBundle): string {
  if (job.start !== 'warm' && job.start !== 'cold') {
    return '';
  }
  if (job.first_line_seconds === null) {
    return job.start === 'warm' ? trans.__('warm start') : trans.__('cold start');
  }
  const time = formatDuration(job.first_line_seconds, trans);
  return job.start === 'warm' ? trans.__('warm start %1', time) : trans.__('cold start %1', time);
}

/** The engine of jobs that name none: this machine. */
const OWN_MACHINE = 'local';

/** Machines that are named beside an engine. */
const MACHINES = 4;

/**
 * Return an engine with the machines of its hosts, as `ssh (gpu-box)`. The target `ssh:gpu-box` already names it;
 * older servers name no machines.
 */
export function formatEngine(engine: string, machines: readonly string[] = []): string {
  const names = machines.length > MACHINES ? [...machines.slice(0, MACHINES), '…'] : machines;
  return names.length > 0 && !engine.includes(':') ? `${engine} (${names.join(', ')})` : engine;
}

/** Return the engine of a job; empty if that is this machine. */
export function formatOtherEngine(engine: string, machines?: readonly string[]): string {
  return engine === OWN_MACHINE ? '' : formatEngine(engine, machines);
}

/** Digits of an id; enough to distinguish two images. */
const DIGITS = 12;

/**
 * Return the image of hosts, as `train:1 (3fa85f645717)`: the name without its registry, and the first digits of the id
 * if that is known. Empty if the hosts have no image, and for older servers, which do not report it.
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

/** Characters of a name in a toast, of which Lab cuts what is beyond 140. */
const TOAST_NAME_LIMIT = 80;

/** Return the sentence of a toast about a job that ended. */
export function formatJobEnd(job: JobSummary, trans: TranslationBundle): string {
  const name = plainText(job.name, TOAST_NAME_LIMIT);
  const time = formatDuration(elapsedSeconds(job, job.ended_at ?? job.created_at), trans);
  switch (job.status) {
    case 'Completed':
      return trans.__('%1 completed after %2', name, time);
    case 'Stopped':
      return trans.__('%1 was stopped after %2', name, time);
    default:
      return trans.__('%1: %2', name, formatFailure(job, trans));
  }
}

/** Return the cost of the jobs that ended since midnight, as `$0.41 today`; empty if no job has a price. */
export function formatCostToday(state: IState, now: number, trans: TranslationBundle): string {
  const midnight = new Date(now * 1000).setHours(0, 0, 0, 0) / 1000;
  const over = [...state.jobs.values()].filter(isFinal);
  const costs = over.filter(job => (job.ended_at ?? 0) >= midnight).map(job => job.cost ?? 0);
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  if (total === 0) {
    return '';
  }
  const sum = formatMoney(total);
  // All unlisted jobs were created before the job at the cursor; some listed ones are older, too.
  const edge = state.cursor === null ? null : state.jobs.get(state.cursor);
  const isWhole = edge === null || (edge !== undefined && edge.created_at < midnight);
  return isWhole ? trans.__('%1 today', sum) : trans.__('over %1 today', sum);
}

/** Return the summary line: `3 running · 4 waiting · 2 warm · 1 pool not reachable · $0.41 today`. */
export function formatCounts(state: IState, now: number, trans: TranslationBundle): string {
  const open = runningJobs(state);
  const waiting = open.filter(isWaiting).length;
  const silent = livePools(state).filter(pool => pool.unreachable).length;
  const words = [
    trans.__('%1 running', open.length - waiting),
    waiting > 0 ? trans.__('%1 waiting', waiting) : '',
    trans.__('%1 warm', idlePools(state).length),
    silent > 0 ? trans._n('%1 pool not reachable', '%1 pools not reachable', silent) : '',
    formatCostToday(state, now, trans)
  ];
  return words.filter(Boolean).join(' · ');
}
