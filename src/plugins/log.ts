// Logs in the main area, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';

import type { JobSummary } from '../_types';
import { Api } from '../api';
import { jobOf } from '../commands';
import { jobsIcon } from '../icons';
import { CommandIDs } from '../ids';
import { LogView } from '../log';
import { finished, running } from '../state';
import { IJobsModel } from '../tokens';
import { wordsOf } from './words';

export const logPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:log',
  description: 'Shows the log of a job in the main area, and follows it.',
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
    const api = new Api(app.serviceManager.serverSettings);
    const opened = (job: JobSummary): MainAreaWidget<LogView> => {
      const content = new LogView({
        read: (offset, wait, signal) => api.log(job.id, offset, wait, signal),
        name: job.name,
        page: document,
        trans
      });
      const tab = new MainAreaWidget({ content });
      tab.id = `jupyter-smx-log-${job.id}`;
      tab.title.label = job.name;
      tab.title.caption = trans.__('Log of %1', job.name);
      tab.title.icon = jobsIcon;
      tab.title.closable = true;
      app.shell.add(tab, 'main');
      return tab;
    };
    const tabs = new Map<string, MainAreaWidget<LogView>>();
    app.commands.addCommand(CommandIDs.openLog, {
      label: trans.__('Open Log of Job'),
      caption: trans.__('Show what a job prints, in the main area'),
      describedBy: { args: { type: 'object', properties: { id: { type: 'string' } } } },
      execute: async args => {
        const { state } = model;
        const jobs = [...running(state), ...finished(state)];
        const job = await jobOf(args, state.jobs, jobs, trans);
        if (job) {
          const known = tabs.get(job.id);
          const tab = known && !known.isDisposed ? known : opened(job);
          tabs.set(job.id, tab);
          tab.disposed.connect(() => tabs.delete(job.id));
          app.shell.activateById(tab.id);
        }
      }
    });
    palette?.addItem({ command: CommandIDs.openLog, category: trans.__('Jobs and Pools') });
  }
};
