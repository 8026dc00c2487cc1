// Reads the whole list from the server: jobs, pools and the counts of arrays.

import type { ArraySummary, JobSummary, PoolSummary } from '../_types';
import type { ApiClient } from '../api/client';
import { arrayIds } from '../state/state';

/** Jobs in one answer at most; the controller gives no more. */
export const PAGE = 1000;

/** Arrays whose tasks are counted in a listing. */
const ARRAYS = 200;

export interface IListing {
  jobs: JobSummary[];
  pools: PoolSummary[];
  arrays: ArraySummary[];
  /** The id of the job before which the next page begins; null when everything is here. */
  cursor: string | null;
  /** The server's clock when it gave the pools; null if it did not say. */
  now: number | null;
}

type IListingApi = Pick<ApiClient, 'jobs' | 'pools' | 'arrays'>;

/** Read at most `finished` finished jobs, and all that are not over. */
export async function readListing(api: IListingApi, finished: number): Promise<IListing> {
  const limit = Math.min(finished, PAGE);
  const [page, pools] = await Promise.all([api.jobs(limit), api.pools()]);
  const cursor = nextCursor(page.body.jobs, limit);
  const jobs = [...(cursor === null ? [] : await unfinishedJobs(api)), ...page.body.jobs];
  const hasArrays = arrayIds(jobs).size > 0;
  const arrays = hasArrays ? (await api.arrays(ARRAYS)).body.arrays : [];
  return { jobs, pools: pools.body.pools, arrays, cursor, now: pools.now };
}

/** The id of the job before which the page after `page` begins; null when there is none. */
export function nextCursor(page: readonly JobSummary[], limit: number): string | null {
  return page.length < limit ? null : page[page.length - 1].id;
}

/** Jobs without a verdict, which may be older than those of the first page. */
async function unfinishedJobs(api: IListingApi): Promise<JobSummary[]> {
  const [open, ending] = await Promise.all([
    api.jobs(PAGE, { status: 'InProgress' }),
    api.jobs(PAGE, { status: 'Stopping' })
  ]);
  return [...open.body.jobs, ...ending.body.jobs];
}
