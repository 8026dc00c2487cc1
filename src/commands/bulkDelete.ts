// Deleting many jobs, which takes a request for each.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary } from '../_types';
import { errorText } from '../api/errors';
import type { IJobsModel } from '../tokens';

/** One after the other, so that the controller can do other things between; what may not go is said once. */
export async function deleteJobs(
  jobs: readonly Pick<JobSummary, 'id'>[],
  model: IJobsModel,
  trans: TranslationBundle
): Promise<void> {
  const refusals: unknown[] = [];
  for (const job of jobs) {
    await model.remove(job).catch((reason: unknown) => refusals.push(reason));
  }
  if (refusals.length > 0) {
    const kept = trans._n('%1 job was not deleted.', '%1 jobs were not deleted.', refusals.length);
    Notification.warning(trans.__('%1 %2', kept, errorText(refusals[0])));
  }
}
