// Job arrays: the state of each task as one letter, and list rows that group the tasks of an array.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ArrayCounts, ArraySummary, JobSummary } from '../_types';
import type { IState } from './state';
import { arrayIds, finishedJobs, isFinal, liveJob, runningJobs } from './state';
import { isWaiting } from './waiting';

/** A notebook's snapshot of an array; `states` has a letter for each task: p(ending), r, c(ompleted), f, s(topped). */
export interface IArraySnapshot {
  id: string;
  title: string;
  states: string;
}

/** The tasks of one array that are in one list; a job without an array is a row of its own. */
export interface IArrayGroup {
  id: string;
  name: string;
  title: string;
  size: number;
  tasks: JobSummary[];
  /** Of all tasks, in this list or not; null if they were not counted. */
  counts: ArrayCounts | null;
}

/** A row of a list: a job, an array, or one of the tasks of an array that is unfolded. */
export type ListRow =
  | { id: string; job: JobSummary; isTask: boolean }
  | { id: string; array: IArrayGroup; isOpen: boolean };

const WAITS = 'p';

/** The letters of verdicts. */
const OVER = 'cfs';

export function taskState(task: JobSummary): string {
  if (isFinal(task)) {
    return task.status.charAt(0).toLowerCase();
  }
  return isWaiting(task) ? WAITS : 'r';
}

/**
 * Return the states of all tasks: those on this page replace those without a verdict in the notebook.
 */
export function currentTaskStates(saved: IArraySnapshot, jobs: Iterable<JobSummary>): string {
  const states = [...saved.states];
  for (const job of jobs) {
    if (job.array?.id === saved.id && job.array.index < states.length) {
      states[job.array.index] = newer(states[job.array.index], taskState(job));
    }
  }
  return states.join('');
}

/**
 * Return true if a task's state in the notebook may be outdated: the page does not list the task, and it has no counts
 * that show that the array still runs.
 */
export function mayBeStale(saved: IArraySnapshot, state: IState): boolean {
  const counts = state.arrays.get(saved.id)?.counts;
  if (counts && counts.pending + counts.running > 0) {
    return false;
  }
  const known = [...state.jobs.keys()].map(id => liveJob(state, id)?.array);
  const tasks = known.filter(task => task?.id === saved.id);
  const listed = new Set(tasks.map(task => task?.index));
  return [...saved.states].some((letter, index) => !OVER.includes(letter) && !listed.has(index));
}

export function isArrayFinal(states: string): boolean {
  return [...states].every(state => OVER.includes(state));
}

/** Keep a saved verdict: verdicts never change, so a list without it was read earlier. */
function newer(saved: string, live: string): string {
  return OVER.includes(saved) ? saved : live;
}

/** Count the tasks in each state, by the letters of their states. */
export function countTaskStates(states: string): ArrayCounts {
  const count = (letter: string): number => [...states].filter(one => one === letter).length;
  return {
    pending: count(WAITS),
    running: count('r'),
    completed: count('c'),
    failed: count('f'),
    stopped: count('s')
  };
}

/** Return the counts of a card: the server's if it counted the tasks, else those of the page and the notebook. */
export function cardCounts(saved: IArraySnapshot, state: IState): ArrayCounts {
  const known = state.arrays.get(saved.id);
  return known?.size === saved.states.length
    ? known.counts
    : countTaskStates(currentTaskStates(saved, state.jobs.values()));
}

/** Return the tasks of an array that the page has, in their order. */
export function listedTasks(state: IState, id: string): JobSummary[] {
  const tasks = [...state.jobs.values()].filter(job => job.array?.id === id);
  return tasks
    .filter(job => liveJob(state, job.id) !== undefined)
    .sort((a, b) => (a.array?.index ?? 0) - (b.array?.index ?? 0));
}

/** Return the task that an array's log or view shows first: the first that failed, else that runs, else the last. */
export function mainTask(tasks: readonly JobSummary[]): JobSummary | undefined {
  const first = (letter: string): JobSummary | undefined =>
    tasks.find(task => taskState(task) === letter);
  return first('f') ?? first('r') ?? tasks[tasks.length - 1];
}

/** Return how a task differs from the others, as `3: lr=0.1`; its array has the rest. */
export function taskName({ array, name }: JobSummary, trans: TranslationBundle): string {
  if (array === null) {
    return name;
  }
  return array.label
    ? trans.__('%1: %2', array.index, array.label)
    : trans.__('Task %1', array.index);
}

/** Say in words how many tasks are in which state, as `4 of 12 done, 1 failed, 2 running, 5 waiting`. */
export function formatCardCounts(counts: ArrayCounts, trans: TranslationBundle): string {
  const { pending, running, completed, failed, stopped } = counts;
  const size = pending + running + completed + failed + stopped;
  const others = [
    failed > 0 ? trans.__('%1 failed', failed) : '',
    stopped > 0 ? trans.__('%1 stopped', stopped) : '',
    running > 0 ? trans.__('%1 running', running) : '',
    pending > 0 ? trans.__('%1 waiting', pending) : ''
  ];
  return [trans.__('%1 of %2 done', completed, size), ...others].filter(Boolean).join(', ');
}

/** Say in words what the letters mean. */
export function formatTaskCounts(states: string, trans: TranslationBundle): string {
  return formatCardCounts(countTaskStates(states), trans);
}

/** Return how many tasks of an array are in which state; only those in the list if not all were counted. */
export function arrayCounts({ tasks, counts }: IArrayGroup): ArrayCounts {
  return counts ?? countTaskStates(tasks.map(taskState).join(''));
}

/** Say in words the status of the tasks of an array, as `3 running, 8 completed, 1 failed of 12 tasks`. */
export function formatArrayStatus(row: IArrayGroup, trans: TranslationBundle): string {
  const counts = arrayCounts(row);
  const words = (
    [
      [counts.running, trans.__('%1 running', counts.running)],
      [counts.pending, trans.__('%1 waiting', counts.pending)],
      [counts.completed, trans.__('%1 completed', counts.completed)],
      [counts.failed, trans.__('%1 failed', counts.failed)],
      [counts.stopped, trans.__('%1 stopped', counts.stopped)]
    ] as const
  )
    .filter(([count]) => count > 0)
    .map(([, said]) => said);
  return trans._n('%2 of %1 task', '%2 of %1 tasks', row.size, words.join(', '));
}

/** The status of an array as a whole, in SageMaker's words. */
export function arrayStatus(row: IArrayGroup): JobSummary['status'] {
  const { pending, running: going, failed, stopped } = arrayCounts(row);
  if (pending + going > 0) {
    return 'InProgress';
  }
  return failed > 0 ? 'Failed' : stopped > 0 ? 'Stopped' : 'Completed';
}

export function formatTaskState(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'c':
      return trans.__('completed');
    case 'f':
      return trans.__('failed');
    case 's':
      return trans.__('stopped');
    case 'r':
      return trans.__('running');
    default:
      return trans.__('waiting');
  }
}

/**
 * Return the jobs of the sections Running and Finished; an array is in one of them with all of its tasks.
 */
export function partitionJobs(state: IState): { running: JobSummary[]; finished: JobSummary[] } {
  const open = runningJobs(state);
  const live = arrayIds(open);
  for (const { id, counts } of state.arrays.values()) {
    if (counts.pending + counts.running > 0) {
      live.add(id);
    }
  }
  const over = finishedJobs(state);
  const isLive = (job: JobSummary): boolean => job.array !== null && live.has(job.array.id);
  const moved = live.size > 0 ? over.filter(isLive) : [];
  return moved.length === 0
    ? { running: open, finished: over }
    : {
        running: [...open, ...moved].sort((a, b) => a.created_at - b.created_at),
        finished: over.filter(job => !isLive(job))
      };
}

/**
 * Group the tasks of each array at the place of its first task in the list; everything else keeps its place.
 */
export function groupByArray(
  jobs: readonly JobSummary[],
  known: ReadonlyMap<string, ArraySummary> = new Map()
): (JobSummary | IArrayGroup)[] {
  const rows: (JobSummary | IArrayGroup)[] = [];
  const arrays = new Map<string, IArrayGroup>();
  for (const job of jobs) {
    if (job.array === null) {
      rows.push(job);
      continue;
    }
    const { id, name, title, size } = job.array;
    const row = arrays.get(id);
    if (row) {
      row.tasks.push(job);
    } else {
      const first = { id, name, title, size, tasks: [job], counts: known.get(id)?.counts ?? null };
      arrays.set(id, first);
      rows.push(first);
    }
  }
  return rows;
}

/**
 * Return the rows of a list of jobs; the tasks of an open array follow it, in their order.
 */
export function buildRows(
  jobs: readonly JobSummary[],
  known: ReadonlyMap<string, ArraySummary>,
  open: ReadonlySet<string>
): ListRow[] {
  const rows: ListRow[] = [];
  for (const one of groupByArray(jobs, known)) {
    if (!('tasks' in one)) {
      rows.push({ id: one.id, job: one, isTask: false });
      continue;
    }
    const isOpen = open.has(one.id);
    rows.push({ id: one.id, array: one, isOpen });
    if (isOpen) {
      const index = (task: JobSummary): number => task.array?.index ?? 0;
      const tasks = [...one.tasks].sort((a, b) => index(a) - index(b));
      rows.push(...tasks.map(job => ({ id: job.id, job, isTask: true })));
    }
  }
  return rows;
}
