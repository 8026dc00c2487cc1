// The orders of finished jobs in a list.

import type { JobSummary } from '../_types';

/** `newest`: by the end, the newest first; `name`: as in a dictionary, numbers by value; `duration`: the longest first. */
export type JobOrder = 'newest' | 'name' | 'duration';

/** Return an order that a setting names, where anything may stand; the newest first if it names none. */
export function parseJobOrder(value: unknown): JobOrder {
  return value === 'name' || value === 'duration' ? value : 'newest';
}

/** Return finished jobs, which are given from the newest to the oldest, in an order. */
export function sortJobs(jobs: JobSummary[], order: JobOrder): JobSummary[] {
  switch (order) {
    case 'name':
      return [...jobs].sort((a, b) => NAMES.compare(a.name, b.name));
    case 'duration':
      return [...jobs].sort((a, b) => duration(b) - duration(a));
    default:
      return jobs;
  }
}

const NAMES = new Intl.Collator(undefined, { numeric: true });

function duration({ created_at, ended_at }: JobSummary): number {
  return (ended_at ?? created_at) - created_at;
}
