// What one job used and measured, over the server's routes.

import { URLExt } from '@jupyterlab/coreutils';

import type { JobMetrics, JobUsage } from '../_types';
import type { Api } from '../api';

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
  const read = async (what: string, ask: IHistoryAsk, signal: AbortSignal): Promise<unknown> => {
    const path = `jobs/${encodeURIComponent(id)}/${what}`;
    const response = await api.respond(path + URLExt.objectToQueryString({ ...ask }), { signal });
    return response.json();
  };
  return {
    usage: async (ask, signal) => (await read('usage', ask, signal)) as JobUsage,
    metrics: async (ask, signal) => (await read('metrics', ask, signal)) as JobMetrics
  };
}
