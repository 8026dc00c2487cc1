// What is known of jobs and pools, and how a change is applied to it: pure functions over one immutable value.

import type { ArraySummary, Changes, Event, JobSummary, PoolSummary, Status } from '../_types';
import type { IRequestFailure } from '../api/errors';
import { plainJob, plainPool } from './plainRecords';
import type { Trends } from './trends';
import { updateTrends } from './trends';

/**
 * How the server half answers: not asked yet, its routes do not exist, no controller runs, answering, or failing.
 */
export type ConnectionStatus = 'unknown' | 'missing' | 'asleep' | 'ready' | 'failing';

/** A pool, and when the server reported it (its clock, seconds since the epoch): its cost has grown since. */
export interface IPool extends PoolSummary {
  readonly reported_at?: number;
}

/** The part of a job that actions need; of an unlisted job, the page may have no more. */
export type INamedJob = Pick<JobSummary, 'id' | 'name'>;

/**
 * Everything that the views show. `seq` is the number of the last change that is in it.
 */
export interface IState {
  readonly connectionStatus: ConnectionStatus;
  readonly seq: number;
  readonly jobs: ReadonlyMap<string, JobSummary>;
  readonly pools: ReadonlyMap<string, IPool>;
  /** Of the newest arrays: how many of their tasks are in which state, listed or not. */
  readonly arrays: ReadonlyMap<string, ArraySummary>;
  /** The recent resource use of the running jobs, since this page was opened. */
  readonly trends: Trends;
  /** Seconds to add to this browser's clock to get the server's. */
  readonly skew: number;
  /** The failure of `missing` and `failing`, and of `asleep` if the controller could not be started. */
  readonly failure: IRequestFailure | null;
  /** When the server half answered last, by the server's clock; null before the first time. */
  readonly lastResponseAt: number | null;
  /** The version of the server half; empty before it is known. */
  readonly serverVersion: string;
  /** Where the records of jobs are, if they are lost with the server's machine; empty otherwise. */
  readonly recordsNote: string;
  /** The ID of the server's records; null before it is known. */
  readonly recordsId: string | null;
  /** The address of the front for clients of AWS, empty if none runs; null before it is known. */
  readonly awsUrl: string | null;
  /** The IDs of the records of cards whose jobs were unfinished when they were drawn. */
  readonly cardRecords: ReadonlySet<string>;
  /** Finished jobs that are kept; it grows as more pages are read. */
  readonly limit: number;
  /** The id of the job before which the next page begins; null if everything is listed. */
  readonly cursor: string | null;
}

/** Finished jobs that are listed at first; the controller has all of them. */
export const FINISHED_LIMIT = 200;

export const EMPTY_STATE: IState = {
  connectionStatus: 'unknown',
  seq: 0,
  jobs: new Map(),
  pools: new Map(),
  arrays: new Map(),
  trends: new Map(),
  skew: 0,
  failure: null,
  lastResponseAt: null,
  serverVersion: '',
  recordsNote: '',
  recordsId: null,
  awsUrl: null,
  cardRecords: new Set(),
  limit: FINISHED_LIMIT,
  cursor: null
};

const FINAL: ReadonlySet<Status> = new Set<Status>(['Completed', 'Failed', 'Stopped']);

/** Return true if a job has no verdict yet. */
export function hasUnfinishedJobs({ jobs }: IState): boolean {
  return [...jobs.values()].some(job => !isFinal(job));
}

/** Return true if a card's jobs are in other records than this server's; older cards and servers have no records id. */
export function isElsewhere(recordsId: string, state: IState): boolean {
  return recordsId !== '' && state.recordsId !== null && recordsId !== state.recordsId;
}

/** Return true if a notebook of this page has running jobs that this server does not have. */
export function hasJobsElsewhere(state: IState): boolean {
  return [...state.cardRecords].some(recordsId => isElsewhere(recordsId, state));
}

export function isFinal(job: Pick<JobSummary, 'status'>): boolean {
  return FINAL.has(job.status);
}

/** A new state, the jobs whose verdict it is the first to have, and the pools that changes ended. */
export interface IStateUpdate {
  state: IState;
  ended: JobSummary[];
  /** As they are after their end, with its reason. */
  endedPools?: PoolSummary[];
}

/**
 * Return the state after a listing; `seq` is the newest number before the listing was made.
 */
export function applyListing(
  state: IState,
  listed: readonly JobSummary[],
  pools: readonly PoolSummary[],
  seq: number,
  cursor: string | null = null,
  now?: number
): IStateUpdate {
  const jobs = listed.map(plainJob);
  const ended = jobs.filter(job => isFinal(job) && !wasKnownOver(job, state));
  const open = jobs.filter(job => !isFinal(job));
  const isOpen = new Set(open.map(job => job.id));
  return {
    state: {
      ...state,
      connectionStatus: 'ready',
      failure: null,
      seq,
      cursor,
      trends: updateTrends(
        state.trends,
        open,
        [...state.trends.keys()].filter(id => !isOpen.has(id))
      ),
      jobs: new Map(jobs.map(job => [job.id, job])),
      pools: new Map(
        pools.filter(isLive).map(pool => [pool.id, { ...plainPool(pool), reported_at: now }])
      )
    },
    ended
  };
}

/**
 * Return true if this page had the end of a job already. A short job may be listed for the first time after its end;
 * an unlisted one that ended before the server's last answer counts as old.
 */
function wasKnownOver(job: JobSummary, { jobs, lastResponseAt }: IState): boolean {
  const before = jobs.get(job.id);
  return before
    ? isFinal(before)
    : lastResponseAt === null || (job.ended_at ?? 0) <= lastResponseAt;
}

/**
 * Return the state with one more page of older jobs; jobs that are listed already are newer than the page.
 */
export function appendPage(
  state: IState,
  page: readonly JobSummary[],
  cursor: string | null
): IState {
  const jobs = new Map([...page.map(job => [job.id, plainJob(job)] as const), ...state.jobs]);
  const limit = Math.max(state.limit, [...jobs.values()].filter(isFinal).length);
  return { ...state, jobs, limit, cursor };
}

/**
 * Return the state without a job that was deleted.
 */
export function removeJob(state: IState, id: string): IState {
  const jobs = new Map(state.jobs);
  jobs.delete(id);
  return { ...state, jobs, cursor: cursorWithout(jobs, state.cursor, [id]) };
}

/** Return the cursor after a deletion: a deleted job cannot be the cursor, so use the oldest remaining job instead. */
function cursorWithout(
  jobs: ReadonlyMap<string, JobSummary>,
  cursor: string | null,
  deleted: readonly string[]
): string | null {
  return cursor !== null && deleted.includes(cursor) ? oldestOf(jobs) : cursor;
}

function oldestOf(jobs: ReadonlyMap<string, JobSummary>): string | null {
  return [...jobs.values()].filter(isFinal).sort(lastCreated).pop()?.id ?? null;
}

/**
 * Return the state with new counts of the tasks of some arrays.
 */
export function applyArrayCounts(state: IState, arrays: readonly ArraySummary[]): IState {
  const all = new Map([...state.arrays, ...arrays.map(array => [array.id, array] as const)]);
  return { ...state, arrays: all };
}

/** Return the ids of the arrays of some jobs. */
export function arrayIds(jobs: Iterable<JobSummary | null>): Set<string> {
  const ids = new Set<string>();
  for (const job of jobs) {
    if (job?.array) {
      ids.add(job.array.id);
    }
  }
  return ids;
}

/**
 * Return the state without a controller: keep the lists, and report no failure unless a start failed. The waiting tasks
 * of arrays are counted again when a controller runs.
 */
export function applyControllerStopped(
  state: IState,
  failure: IRequestFailure | null = null
): IStateUpdate {
  const arrays = failure ? state.arrays : new Map<string, ArraySummary>();
  return { state: { ...state, connectionStatus: 'asleep', failure, arrays }, ended: [] };
}

/**
 * Return the state after some changes, and the jobs whose verdict is new in them. Old changes have no effect.
 */
export function applyChanges(state: IState, changes: Changes): IStateUpdate {
  const fresh = changes.events.filter(event => event.seq > state.seq);
  const jobs = new Map(state.jobs);
  const pools = new Map<string, IPool>(state.pools);
  const ended = new Map<string, JobSummary>();
  const endedPools: PoolSummary[] = [];
  for (const event of [...fresh].sort((a, b) => a.seq - b.seq)) {
    if (event.pool && !isLive(event.pool) && pools.has(event.pool.id)) {
      endedPools.push(plainPool(event.pool));
    }
    const job = applyEvent(event, jobs, pools);
    if (job) {
      ended.set(job.id, job);
    }
    ended.delete(event.deleted);
  }
  const deleted = fresh.map(event => event.deleted).filter(Boolean);
  return {
    state: {
      ...state,
      connectionStatus: 'ready',
      failure: null,
      // One answer may have only a part of very many events: the next part follows the last one of them.
      seq: Math.max(state.seq, newestOf(changes)),
      trends: followed(state.trends, fresh),
      ...forgetOldest(jobs, { ...state, cursor: cursorWithout(jobs, state.cursor, deleted) }),
      pools
    },
    ended: [...ended.values()],
    endedPools
  };
}

function followed(trends: Trends, events: readonly Event[]): Trends {
  const news = events.flatMap(event => event.job ?? []);
  const over = [...news.filter(isFinal).map(job => job.id), ...events.map(event => event.deleted)];
  return updateTrends(
    trends,
    news.filter(job => !isFinal(job)),
    over
  );
}

function newestOf(changes: Changes): number {
  return changes.events.length > 0
    ? Math.max(...changes.events.map(event => event.seq))
    : changes.seq;
}

function applyEvent(
  event: Event,
  jobs: Map<string, JobSummary>,
  pools: Map<string, IPool>
): JobSummary | null {
  if (event.pool) {
    if (isLive(event.pool)) {
      pools.set(event.pool.id, { ...plainPool(event.pool), reported_at: event.at });
    } else {
      pools.delete(event.pool.id);
    }
  }
  jobs.delete(event.deleted);
  if (!event.job) {
    return null;
  }
  const before = jobs.get(event.job.id);
  const job = plainJob(event.job);
  jobs.set(job.id, job);
  // A short job may be listed for the first time when it is over already.
  const wasOver = before !== undefined && isFinal(before);
  return isFinal(job) && !wasOver ? job : null;
}

/** Remove jobs beyond the limit; the next page begins with them. */
function forgetOldest(
  jobs: Map<string, JobSummary>,
  { limit, cursor }: IState
): Pick<IState, 'jobs' | 'cursor'> {
  const over = [...jobs.values()].filter(isFinal).sort(lastCreated).slice(limit);
  for (const job of over) {
    jobs.delete(job.id);
  }
  return { jobs, cursor: over.length > 0 ? oldestOf(jobs) : cursor };
}

function lastCreated(a: JobSummary, b: JobSummary): number {
  return b.created_at - a.created_at;
}

/** Steps in which hosts work for a job; a run begins, and is counted and billed, with the first of them. */
export const ACTIVE_STATUSES: readonly string[] = ['Downloading', 'Training'];

/** Return true if hosts work for a job; a job whose image is being downloaded for new hosts has none yet. */
function isAtWork(job: JobSummary): boolean {
  return ACTIVE_STATUSES.includes(job.secondary_status) && job.start !== 'none';
}

/** Return true if the spot hosts of a job can be interrupted now. */
export function canBeInterrupted(job: JobSummary): boolean {
  return job.spot && isAtWork(job);
}

/** Return true if hosts work for a job now, or are warm after it; a job that uploads or stops may have hosts, too. */
export function jobHasHosts(job: JobSummary): boolean {
  return isAtWork(job) || job.warm_pool_status === 'Available';
}

/** Return true if the hosts of a pool exist. */
export function poolHasHosts(pool: PoolSummary): boolean {
  return pool.state === 'InUse' || pool.state === 'Available';
}

function isLive(pool: PoolSummary): boolean {
  return pool.state !== 'Terminated' && pool.state !== 'Releasing';
}

function newestFirst(a: JobSummary, b: JobSummary): number {
  return (b.ended_at ?? b.created_at) - (a.ended_at ?? a.created_at);
}

/** Return true if the controller exited because it was idle: jobs that ran are over, and their outcome is unknown. */
function hasLeft({ connectionStatus, failure }: IState): boolean {
  return connectionStatus === 'asleep' && failure === null;
}

/** Return a job as it is now; undefined if this page has no current state of it. */
export function liveJob(state: IState, id: string): JobSummary | undefined {
  const job = state.jobs.get(id);
  return job && !isFinal(job) && hasLeft(state) ? undefined : job;
}

/** Jobs without a verdict, oldest first. */
export function runningJobs(state: IState): JobSummary[] {
  const jobs = hasLeft(state) ? [] : [...state.jobs.values()];
  return jobs.filter(job => !isFinal(job)).sort((a, b) => a.created_at - b.created_at);
}

/** Jobs with a verdict, newest first. */
export function finishedJobs(state: IState): JobSummary[] {
  return [...state.jobs.values()].filter(isFinal).sort(newestFirst);
}

/** Return all jobs of the page, in the order of the panel: those without a verdict first. */
export function orderedJobs(state: IState): JobSummary[] {
  return [...runningJobs(state), ...finishedJobs(state)];
}

/** Pools: the one that ends soonest first, those in use last. */
export function livePools(state: IState): IPool[] {
  const pools = hasLeft(state) ? [] : [...state.pools.values()];
  return pools.sort(
    (a, b) => (a.expires_at ?? Infinity) - (b.expires_at ?? Infinity) || a.created_at - b.created_at
  );
}

/** Pools that wait for a job: those that can be kept longer and released. */
export function idlePools(state: IState): IPool[] {
  return livePools(state).filter(pool => pool.expires_at !== null);
}

/**
 * The keep-alive in seconds from now that moves a pool's end by `seconds`; null while it has no end.
 */
export function extendedKeepAlive(pool: PoolSummary, seconds: number, now: number): number | null {
  if (pool.expires_at === null) {
    return null;
  }
  return Math.max(0, Math.ceil(pool.expires_at - now + seconds));
}
