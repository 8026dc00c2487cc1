// What draws cards, put together for one page.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { TranslationBundle } from '@jupyterlab/translation';

import { createStorage } from '../notifications/storage';
import type { IJobsModel } from '../tokens';
import type { ICardDetails } from './cardRenderer';
import { CardRenderer } from './cardRenderer';
import { ClosedFailures } from './closedFailures';
import type { CardFactory } from './lazyCard';

/** Return what makes the renderer of each card of the page. */
export function createCardFactory(
  app: Pick<JupyterFrontEnd, 'commands' | 'serviceManager'>,
  model: IJobsModel,
  trans: TranslationBundle
): CardFactory {
  const { serverSettings } = app.serviceManager;
  const open = async (id: string): Promise<ICardDetails> => {
    const [{ ApiClient }, { CardDetailsView, createDetailsModel }] = await Promise.all([
      import('../api/client'),
      import('./cardDetails')
    ]);
    return {
      More: CardDetailsView,
      detail: createDetailsModel(new ApiClient(serverSettings), id, model)
    };
  };
  // Servers of several users may have one origin.
  const key = `jupyter-smx:${new URL(serverSettings.baseUrl).pathname}:closed-failures`;
  const closedFailures = new ClosedFailures(createStorage(window), key);
  return () => new CardRenderer(model, app.commands, trans, open, closedFailures);
}
