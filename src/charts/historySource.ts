// What one job used and measured, over the server's routes.

import { URLExt } from '@jupyterlab/coreutils';

import type { JobMetrics, JobUsage } from '../_types';
import type { Api } from '../api/client';

/** What came after a moment (seconds since the epoch; 0 is everything) of a run of the job (0 is the newest). */
export interface IHistoryAsk {
  since: number;
  attempt: number;
}

export interface IHistorySource {
  usage(ask: IHistoryAsk, signal: AbortSignal): Promise<JobUsage>;
  metrics(ask: IHistoryAsk, signal: AbortSignal): Promise<JobMetrics>;
}

/** The history of a job. */
export function historyOf(api: Api, id: string): IHistorySource {
  const read = <T>(what: string, ask: IHistoryAsk, signal: AbortSignal): Promise<T> => {
    const path = `jobs/${encodeURIComponent(id)}/${what}`;
    return api.read(path + URLExt.objectToQueryString({ ...ask }), { signal });
  };
  return {
    usage: (ask, signal) => read<JobUsage>('usage', ask, signal),
    metrics: (ask, signal) => read<JobMetrics>('metrics', ask, signal)
  };
}
