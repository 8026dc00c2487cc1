// Arrays of jobs: where their tasks are, one letter for each, and rows that hold the tasks of one array together.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary } from './_types';
import { isFinal } from './state';

/** What a notebook holds of an array; `states` has a letter for each task: p(ending), r, c(ompleted), f, s(topped). */
export interface IArraySnapshot {
  id: string;
  title: string;
  states: string;
}

/** Tasks of one array that stand in one list, where a job stands for itself. */
export interface ITasks {
  id: string;
  name: string;
  title: string;
  size: number;
  tasks: JobSummary[];
}

const WAITS = 'p';

export function stateOf(task: JobSummary): string {
  if (isFinal(task)) {
    return task.status.charAt(0).toLowerCase();
  }
  return task.secondary_status === 'Pending' ? WAITS : 'r';
}

/**
 * The states of all tasks: what is known now over what the notebook says.
 */
export function statesNow(saved: IArraySnapshot, jobs: Iterable<JobSummary>): string {
  const states = [...saved.states];
  for (const job of jobs) {
    if (job.array?.id === saved.id && job.array.index < states.length) {
      states[job.array.index] = newer(states[job.array.index], stateOf(job));
    }
  }
  return states.join('');
}

/** A verdict never changes, so a list that was read before it loses against it. */
function newer(saved: string, live: string): string {
  return 'cfs'.includes(saved) ? saved : live;
}

/**
 * Say in words what the letters say, as `4 of 12 done, 1 failed, 2 running`.
 */
export function countWords(states: string, trans: TranslationBundle): string {
  const count = (letter: string): number => [...states].filter(one => one === letter).length;
  const parts = [trans.__('%1 of %2 done', count('c'), states.length)];
  if (count('f') > 0) {
    parts.push(trans.__('%1 failed', count('f')));
  }
  if (count('s') > 0) {
    parts.push(trans.__('%1 stopped', count('s')));
  }
  if (count('r') > 0) {
    parts.push(trans.__('%1 running', count('r')));
  }
  return parts.join(', ');
}

/** Say of some tasks of an array how many of them are where; nothing is said of tasks that are not among them. */
export function tasksWords({ tasks, size }: ITasks, trans: TranslationBundle): string {
  const states = tasks.map(stateOf);
  const words = [
    ['r', trans.__('running')],
    ['p', trans.__('waiting')],
    ['c', trans.__('completed')],
    ['f', trans.__('failed')],
    ['s', trans.__('stopped')]
  ]
    .map(([letter, word]) => [states.filter(one => one === letter).length, word] as const)
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`);
  return trans.__('%1 of %2 tasks', words.join(', '), size);
}

export function stateWord(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'c':
      return trans.__('completed');
    case 'f':
      return trans.__('failed');
    case 's':
      return trans.__('stopped');
    case 'r':
      return trans.__('runs');
    default:
      return trans.__('waits');
  }
}

/**
 * Put the tasks of each array together, where its first task of the list stands; everything else stays where it is.
 */
export function together(jobs: readonly JobSummary[]): (JobSummary | ITasks)[] {
  const rows: (JobSummary | ITasks)[] = [];
  const arrays = new Map<string, ITasks>();
  for (const job of jobs) {
    if (job.array === null) {
      rows.push(job);
      continue;
    }
    const { id, name, title, size } = job.array;
    const known = arrays.get(id);
    if (known) {
      known.tasks.push(job);
    } else {
      const row = { id, name, title, size, tasks: [job] };
      arrays.set(id, row);
      rows.push(row);
    }
  }
  return rows;
}
