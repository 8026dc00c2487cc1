// Notifications about jobs and pools, as a plugin with its settings.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs, NO_ARGS } from '../commands/commandIds';
import { IJobsModel } from '../tokens';
import { addToPalette } from './palette';
import { loadTranslation } from './translation';

export const toastsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:toasts',
  description:
    'Notifies you when jobs end or warm pools are about to expire, on the page or on the desktop.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ISettingRegistry, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = loadTranslation(translator);
    const started = app.restored.then(async () => {
      const { startNotifier } = await import('../notifications');
      return startNotifier({ app, model, trans, registry, plugin: toastsPlugin.id });
    });
    app.commands.addCommand(CommandIDs.tellOnDesktop, {
      label: trans.__('Enable Desktop Notifications for Jobs'),
      caption: trans.__('Show desktop notifications while this tab is hidden'),
      describedBy: { args: NO_ARGS },
      execute: async () => (await started).permissionPrompt.ask()
    });
    addToPalette(palette, trans, CommandIDs.tellOnDesktop);
  }
};
