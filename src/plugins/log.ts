// Logs in the main area, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';
import { listIcon } from '@jupyterlab/ui-components';

import { ApiClient } from '../api/client';
import { CommandIDs, JOB_ARGS, LOG_PLUGIN } from '../commands/commandIds';
import type * as Log from '../log/index';
import { addLogCommands } from '../log/logCommands';
import type { INamedJob } from '../state/state';
import { IJobsModel } from '../tokens';
import { JobTabs } from '../widgets/jobTabs';
import { addToPalette } from './palette';
import { loadTranslation } from './translation';

export const logPlugin: JupyterFrontEndPlugin<void> = {
  id: LOG_PLUGIN,
  description: 'Shows and follows the log of a job in the main area.',
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
    const trans = loadTranslation(translator);
    const tabs = new JobTabs<Log.LogView>(app, 'log', listIcon, name => trans.__('Log: %1', name));
    app.commands.addCommand(CommandIDs.openLog, {
      label: trans.__('Open Log of Job'),
      caption: trans.__('Show the output of a job in the main area'),
      describedBy: { args: JOB_ARGS },
      execute: async args => {
        const { jobFromArgs } = await import('../commands/prompts');
        const job = await jobFromArgs(args, model, trans);
        if (job) {
          // Reading logs needs more code than the rest of the page does, so it is loaded with the first one.
          const log = await import('../log/index');
          const displayOptions = await log.loadDisplayOptions(model, registry);
          const api = new ApiClient(app.serviceManager.serverSettings);
          const failure = log.createLogFailure(model, job.id, trans);
          const options = { trans, failure, ...displayOptions };
          tabs.show(job, () => viewOf(log, api, job, options));
        }
      }
    });
    addToPalette(palette, trans, CommandIDs.openLog, ...addLogCommands(app, trans));
    tabs.restore(restorer, CommandIDs.openLog);
  }
};

function viewOf(
  { LogView, createLogSource }: typeof Log,
  api: ApiClient,
  { id, name }: INamedJob,
  options: Log.ILogDisplayOptions & Pick<Log.ILogOptions, 'trans' | 'failure'>
): Log.LogView {
  const view = new LogView({ source: createLogSource(api, id), name, page: document, ...options });
  view.title.caption = options.trans.__('Log of %1', name);
  return view;
}
