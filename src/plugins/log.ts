// Logs in the main area, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { Api } from '../api';
import { jobsIcon } from '../icons';
import { CommandIDs } from '../ids';
import type * as Log from '../log/index';
import { addLogCommands } from '../log/commands';
import { place } from '../place';
import { IJobsModel } from '../tokens';
import { addToPalette } from './palette';
import { wordsOf } from './words';

/** What of a job a tab with its log needs; the page that is loaded again knows no more at first. */
interface INamed {
  id: string;
  name: string;
}

export const logPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:log',
  description: 'Shows the log of a job in the main area, and follows it.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null
  ): void => {
    const trans = wordsOf(translator);
    const tabs = new WidgetTracker<MainAreaWidget<Log.LogView>>({ namespace: 'jupyter-smx-log' });
    const settings = registry?.load(logPlugin.id).catch(() => null);
    const properties = {
      id: { type: 'string', description: 'The id of the job; without it, which one is asked' },
      name: { type: 'string', description: 'Its name, of a job that the panel does not list' }
    };
    app.commands.addCommand(CommandIDs.openLog, {
      label: trans.__('Open Log of Job'),
      caption: trans.__('Show what a job prints, in the main area'),
      describedBy: { args: { type: 'object', properties } },
      execute: async args => {
        const { jobOf } = await import('../ask');
        const { finished, running } = await import('../state');
        const { state } = model;
        const jobs = [...running(state), ...finished(state)];
        const job = (await jobOf(args, model, jobs, trans)) ?? named(args);
        if (job) {
          // Reading logs needs more code than the rest of the page does, so it is loaded with the first one.
          const log = await import('../log/index');
          const isWrapped = (await settings)?.get('wrap').composite !== false;
          if (!tabs.find(tab => tab.id === tabId(job))) {
            void tabs.add(opened(log, app, job, { trans, isWrapped, wake: () => model.wake() }));
          }
          app.shell.activateById(tabId(job));
        }
      }
    });
    addToPalette(palette, trans, CommandIDs.openLog, ...addLogCommands(app, trans));
    void restorer?.restore(tabs, {
      command: CommandIDs.openLog,
      args: tab => ({ id: tab.id.slice(PREFIX.length), name: tab.title.label }),
      name: tab => tab.id
    });
  }
};

const PREFIX = 'jupyter-smx-log-';

function tabId({ id }: INamed): string {
  return PREFIX + id;
}

function named({ id, name }: ReadonlyPartialJSONObject): INamed | null {
  return typeof id === 'string' && typeof name === 'string' ? { id, name } : null;
}

function opened(
  { LogView, logOf }: typeof Log,
  app: JupyterFrontEnd,
  job: INamed,
  words: Pick<Log.ILogOptions, 'trans' | 'wake' | 'isWrapped'>
): MainAreaWidget<Log.LogView> {
  const api = new Api(app.serviceManager.serverSettings);
  const content = new LogView({
    source: logOf(api, job.id),
    name: job.name,
    page: document,
    ...words
  });
  const tab = new MainAreaWidget({ content });
  // The view has its own, which goes wherever it is shown.
  tab.toolbar.hide();
  tab.id = tabId(job);
  tab.title.label = job.name;
  tab.title.caption = words.trans.__('Log of %1', job.name);
  tab.title.icon = jobsIcon;
  tab.title.closable = true;
  place(app.shell, tab);
  return tab;
}
