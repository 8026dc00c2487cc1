// What the view of a job asks of the server.

import type {
  Advice,
  Bill,
  Comparison,
  Job,
  JobAdvice,
  JobFileLocations,
  JobSummary,
  FileLocation
} from '../_types';
import type { ApiClient } from '../api/client';
import { pathOf } from '../api/routes';

/** The record of a job, with what lists show of it and its bill as of the answer. */
export type IJobRecord = Job & { summary: JobSummary; bill: Bill };

/** By path, whether it is there and what the browser of files calls it. */
export type IPlaces = Readonly<Record<string, FileLocation | undefined>>;

export interface IJobSource {
  record(): Promise<IJobRecord>;
  places(): Promise<IPlaces>;
  /** What became different from one job to another; '' is the run of the same name before that one. */
  difference(from: string, to: string): Promise<Comparison>;
  /** What the rules found in what it used so far. */
  advice(): Promise<Advice[]>;
  /** Where a browser gets an artefact as a file. */
  address(artifact: string): string;
}

export function createJobSource(api: ApiClient, id: string): IJobSource {
  return {
    record: () => api.read(pathOf('get_job', id)),
    places: async () => (await api.read<JobFileLocations>(pathOf('locate_job_files', id))).places,
    difference: (from, to) => {
      const query = from ? `?from=${encodeURIComponent(from)}` : '';
      return api.read(pathOf('compare_jobs', to) + query);
    },
    advice: async () => (await api.read<JobAdvice>(pathOf('get_advice', id))).advice,
    address: artifact => api.address(pathOf('download_artifact', id, artifact))
  };
}
