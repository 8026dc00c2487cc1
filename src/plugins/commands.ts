// The commands, and their places in the palette.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';

import { addCommands, CommandIDs } from '../commands';
import { IJobsModel } from '../tokens';
import { wordsOf } from './words';

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:commands',
  description: 'Adds the commands that stop jobs and extend or release warm pools.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = wordsOf(translator);
    addCommands(app.commands, model, trans);
    palette?.addItem({ command: CommandIDs.refresh, category: trans.__('Jobs and Pools') });
  }
};
