// What an open card shows, loaded with the first one that is opened.

import type { ApiClient } from '../../api/client';
import { createHistorySource } from '../../charts/historySource';
import { createJobSource } from '../../jobView/jobSource';
import { createLogSource } from '../../log/logSource';
import type { IJobsModel } from '../../tokens';
import { CardDetailsModel } from './detailsModel';

export type { CardDetailsModel } from './detailsModel';
export { CardDetailsView } from './detailsView';

/** Follow a job for its open card. */
export function createDetailsModel(
  api: ApiClient,
  id: string,
  model: IJobsModel
): CardDetailsModel {
  return new CardDetailsModel({
    id,
    model,
    source: createJobSource(api, id),
    log: createLogSource(api, id),
    history: createHistorySource(api, id),
    page: document,
    random: Math.random
  });
}
