// The renderer of cards, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator } from '@jupyterlab/translation';

import { CARD_MIME_TYPE } from '../notebook/cardMimeType';
import type { CardFactory } from '../notebook/lazyCard';
import { LazyCard } from '../notebook/lazyCard';
import { IJobsModel } from '../tokens';
import { LazyCode } from '../widgets/lazyCode';
import { loadTranslation } from './translation';

export const cardPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:card',
  description: 'Renders the live card of a job below its cell.',
  autoStart: true,
  requires: [IJobsModel, IRenderMimeRegistry],
  optional: [ITranslator, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null,
    notebooks: INotebookTracker | null
  ): void => {
    const trans = loadTranslation(translator);
    const factory = new LazyCode<CardFactory>(async () => {
      const { createCardFactory } = await import('../notebook');
      return createCardFactory(app, model, trans);
    });
    rendermime.addFactory(
      {
        safe: true,
        mimeTypes: [CARD_MIME_TYPE],
        createRenderer: () => new LazyCard(factory, trans)
      },
      0
    );
    // While the server reads the notebook; a card that is drawn later would wait for the code. It reports a failure.
    const load = (): void => void factory.request().catch(() => undefined);
    notebooks?.forEach(load);
    notebooks?.widgetAdded.connect(load);
  }
};
