// The card of the launcher, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILauncher } from '@jupyterlab/launcher';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../commands/commandIds';
import { loadTranslation } from './translation';

export const launcherPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:launcher',
  description: 'Adds a launcher card that opens the panel.',
  autoStart: true,
  // Notebook 7 has none.
  optional: [ILauncher, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    launcher: ILauncher | null,
    translator: ITranslator | null
  ): void => {
    // A section of its own, named as in the palette: "Other" has files and terminals.
    const category = loadTranslation(translator).__('Jobs and Pools');
    // Where the panel is switched off, there is nothing to show.
    void app.started.then(() => {
      if (app.commands.hasCommand(CommandIDs.openPanel)) {
        launcher?.add({ command: CommandIDs.openPanel, category, rank: 10 });
      }
    });
  }
};
