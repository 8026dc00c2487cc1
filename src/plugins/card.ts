// The renderer of cards, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator } from '@jupyterlab/translation';

import type { ICardDetails } from '../notebook/cardRenderer';
import { CardRenderer } from '../notebook/cardRenderer';
import { CARD_MIME_TYPE } from '../notebook/cardSnapshot';
import { ClosedFailures } from '../notebook/closedFailures';
import { createStorage } from '../notifications/storage';
import { IJobsModel } from '../tokens';
import { loadTranslation } from './translation';

export const cardPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:card',
  description: 'Renders the live card of a job below its cell.',
  autoStart: true,
  requires: [IJobsModel, IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null
  ): void => {
    const trans = loadTranslation(translator);
    const open = async (id: string): Promise<ICardDetails> => {
      const [{ ApiClient }, { CardDetailsView, createDetailsModel }] = await Promise.all([
        import('../api/client'),
        import('../notebook/cardDetails')
      ]);
      return {
        More: CardDetailsView,
        detail: createDetailsModel(new ApiClient(app.serviceManager.serverSettings), id, model)
      };
    };
    const { baseUrl } = app.serviceManager.serverSettings;
    // Servers of several users may have one origin.
    const key = `jupyter-smx:${new URL(baseUrl).pathname}:closed-failures`;
    const closedFailures = new ClosedFailures(createStorage(window), key);
    rendermime.addFactory(
      {
        safe: true,
        mimeTypes: [CARD_MIME_TYPE],
        createRenderer: () => new CardRenderer(model, app.commands, trans, open, closedFailures)
      },
      0
    );
  }
};
