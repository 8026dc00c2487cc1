// The item of the status bar, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator } from '@jupyterlab/translation';

import { IJobsModel } from '../tokens';
import { StatusItem } from '../widgets/statusItem';
import { loadTranslation } from './translation';

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:status',
  description: 'Shows running jobs, warm pools and the cost of today in the status bar.',
  autoStart: true,
  requires: [IJobsModel],
  // Notebook 7 has none.
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    if (bar) {
      const item = new StatusItem(model, app.commands, loadTranslation(translator));
      bar.registerStatusItem(statusPlugin.id, { item, align: 'left', rank: 20 });
    }
  }
};
