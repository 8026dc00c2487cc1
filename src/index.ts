// The plugins, one per feature, so that a deployment can switch off each of them alone.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Api } from './api';
import { CardRenderer } from './card';
import { addCommands, CommandIDs } from './commands';
import { jobsIcon } from './icons';
import { JobsModel } from './model';
import { JobsPanel } from './sidebar';
import { CARD_MIME_TYPE } from './snapshot';
import { IJobsModel } from './tokens';

export { IJobsModel } from './tokens';

const DOMAIN = 'jupyter_smx';

/** Third-party sidebars stand between 501 and 899. */
const SIDEBAR_RANK = 510;

const modelPlugin: JupyterFrontEndPlugin<IJobsModel> = {
  id: 'jupyter-smx:model',
  description: 'Follows the jobs and warm pools of this user.',
  autoStart: true,
  provides: IJobsModel,
  activate: (app: JupyterFrontEnd): IJobsModel => {
    const { events, serverSettings } = app.serviceManager;
    const model = new JobsModel({
      api: new Api(serverSettings),
      events: events.stream,
      page: document,
      clock: () => Date.now() / 1000
    });
    void app.restored.then(() => model.refresh());
    return model;
  }
};

const commandsPlugin: JupyterFrontEndPlugin<void> = {
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
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    addCommands(app.commands, model, trans);
    palette?.addItem({ command: CommandIDs.refresh, category: trans.__('Jobs and Pools') });
  }
};

const sidebarPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:sidebar',
  description: 'Adds the panel "Jobs and pools" to the left sidebar.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const panel = new JobsPanel({ model, commands: app.commands, trans });
    app.shell.add(panel, 'left', { rank: SIDEBAR_RANK });
    restorer?.add(panel, panel.id);
    app.commands.addCommand(CommandIDs.openPanel, {
      label: trans.__('Show Jobs and Pools'),
      icon: jobsIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => app.shell.activateById(panel.id)
    });
    palette?.addItem({ command: CommandIDs.openPanel, category: trans.__('Jobs and Pools') });
  }
};

const toastsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:toasts',
  description: 'Shows a notification when a job ends.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    settings: ISettingRegistry | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const loaded = settings?.load(toastsPlugin.id).catch(() => null) ?? Promise.resolve(null);
    model.ended.connect((_, jobs) => {
      void loaded.then(async found => {
        if (found?.get('jobEnded').composite !== false) {
          const { announce } = await import('./toasts');
          announce(jobs, app.commands, trans);
        }
      });
    });
  }
};

const cardPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:card',
  description: 'Renders the card of a job under its cell, live.',
  autoStart: true,
  requires: [IJobsModel, IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    rendermime.addFactory(
      {
        safe: true,
        mimeTypes: [CARD_MIME_TYPE],
        createRenderer: () => new CardRenderer(model, app.commands, trans)
      },
      0
    );
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  modelPlugin,
  commandsPlugin,
  sidebarPlugin,
  toastsPlugin,
  cardPlugin
];
export default plugins;
