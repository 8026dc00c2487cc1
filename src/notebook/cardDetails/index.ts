// What an open card shows, loaded with the first one that is opened.

import type { Api } from '../../api/client';
import { historyOf } from '../../charts/historySource';
import { jobSource } from '../../jobView/jobSource';
import { logOf } from '../../log/logSource';
import type { IJobsModel } from '../../tokens';
import { CardDetail } from './detailsModel';

export type { CardDetail } from './detailsModel';
export { CardMore } from './detailsView';

/** Follow a job for its open card. */
export function detailOf(api: Api, id: string, model: IJobsModel): CardDetail {
  return new CardDetail({
    id,
    model,
    source: jobSource(api, id),
    log: logOf(api, id),
    history: historyOf(api, id),
    page: document,
    random: Math.random
  });
}
