// The plugin that adds the commands and lists them in the palette.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../commands/commandIds';
import { addModelCommands } from '../commands/modelCommands';
import { IJobsModel } from '../tokens';
import { addToPalette } from './palette';
import { loadTranslation } from './translation';

const IN_PALETTE = [
  CommandIDs.refresh,
  CommandIDs.stopJob,
  CommandIDs.interruptJob,
  CommandIDs.rerunJob,
  CommandIDs.stopArray,
  CommandIDs.rerunFailedTasks,
  CommandIDs.extendPool,
  CommandIDs.releasePool,
  CommandIDs.deleteJob,
  CommandIDs.clearFinished,
  CommandIDs.wake
];

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:commands',
  description:
    'Adds the commands that stop, interrupt and delete jobs and extend or release warm pools.',
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
    addModelCommands(app.commands, model, trans);
    addToPalette(palette, trans, ...IN_PALETTE);
  }
};
