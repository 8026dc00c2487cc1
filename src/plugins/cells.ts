// The marks of cells, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator } from '@jupyterlab/translation';

import { IJobsModel } from '../tokens';
import { loadTranslation } from './translation';

export const cellsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:cells',
  description: 'Marks notebook cells with the state of the jobs that they submitted.',
  autoStart: true,
  requires: [IJobsModel, INotebookTracker],
  optional: [ITranslator],
  activate: (
    _app: JupyterFrontEnd,
    model: IJobsModel,
    tracker: INotebookTracker,
    translator: ITranslator | null
  ): void => {
    const trans = loadTranslation(translator);
    const follow = async (panel: NotebookPanel): Promise<void> => {
      const { CellMarkRenderer, followAwsMagic } = await import('../notebook');
      followAwsMagic(model);
      if (!panel.isDisposed) {
        const marks = new CellMarkRenderer(panel.content, model, trans);
        panel.disposed.connect(() => marks.dispose());
      }
    };
    tracker.forEach(panel => void follow(panel));
    tracker.widgetAdded.connect((_, panel) => void follow(panel));
  }
};
