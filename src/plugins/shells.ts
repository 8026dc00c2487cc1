// Shells where jobs run, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';

import { ApiClient } from '../api/client';
import { CommandIDs } from '../commands/commandIds';
import { addShellCommands } from '../commands/shellCommands';
import { IJobsModel } from '../tokens';
import { addToPalette } from './palette';
import { loadTranslation } from './translation';

export const shellsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:shells',
  description: 'Opens terminals on the hosts of jobs and pools.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = loadTranslation(translator);
    const api = new ApiClient(app.serviceManager.serverSettings);
    addShellCommands({ app, api, model, trans });
    addToPalette(palette, trans, CommandIDs.openShell, CommandIDs.openPoolShell);
  }
};
