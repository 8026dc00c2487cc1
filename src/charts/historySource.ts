// What one job used and measured, over the server's routes.

import { URLExt } from '@jupyterlab/coreutils';

import type { JobMetrics, JobUsage } from '../_types';
import type { ApiClient } from '../api/client';
import { type Action, pathOf } from '../api/routes';

/** What came after a moment (seconds since the epoch; 0 is everything) of a run of the job (0 is the newest). */
export interface IHistoryQuery {
  since: number;
  attempt: number;
}

export interface IHistorySource {
  usage(query: IHistoryQuery, signal: AbortSignal): Promise<JobUsage>;
  metrics(query: IHistoryQuery, signal: AbortSignal): Promise<JobMetrics>;
}

/** The history of a job. */
export function createHistorySource(api: ApiClient, id: string): IHistorySource {
  const read = <T>(action: Action, query: IHistoryQuery, signal: AbortSignal): Promise<T> =>
    api.read(pathOf(action, id) + URLExt.objectToQueryString({ ...query }), { signal });
  return {
    usage: (query, signal) => read<JobUsage>('get_usage', query, signal),
    metrics: (query, signal) => read<JobMetrics>('get_metrics', query, signal)
  };
}
