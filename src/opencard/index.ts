// What an open card shows, loaded with the first one that is opened.

import type { Api } from '../api';
import { historyOf } from '../charts/source';
import { logOf } from '../log/source';
import type { IJobsModel } from '../tokens';
import { jobSource } from '../view/source';
import { CardDetail } from './detail';

export type { CardDetail } from './detail';
export { CardMore } from './more';

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
