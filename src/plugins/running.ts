// The section of Lab's panel of what runs, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ITranslator } from '@jupyterlab/translation';

import { runningManager } from '../sidebar/runningSessions';
import { IJobsModel } from '../tokens';
import { loadTranslation } from './translation';

export const runningPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:running',
  description: 'Lists jobs and idle pools in the panel "Running Terminals and Kernels".',
  autoStart: true,
  requires: [IJobsModel],
  // A page of Notebook 7 with a document has none.
  optional: [IRunningSessionManagers, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    managers: IRunningSessionManagers | null,
    translator: ITranslator | null
  ): void => {
    managers?.add(runningManager(model, app.commands, loadTranslation(translator)));
  }
};
