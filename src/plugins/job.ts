// The view of a job in the main area, as a plugin: one tab for each job, which comes back when the page is loaded again.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../commands/commandIds';
import type { JobView } from '../jobView';
import { addJobViewCommands } from '../jobView/jobViewCommands';
import { IJobsModel } from '../tokens';
import { JobTabs } from '../widgets/jobTabs';
import { addToPalette } from './palette';
import { loadTranslation } from './translation';

export const jobPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:job',
  description: 'Shows one job in the main area: log, files, code, environment, events, cost.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [
    ITranslator,
    ICommandPalette,
    ILayoutRestorer,
    INotebookTracker,
    IEditorLanguageRegistry,
    ISettingRegistry
  ],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    notebooks: INotebookTracker | null,
    languages: IEditorLanguageRegistry | null,
    registry: ISettingRegistry | null
  ): void => {
    const trans = loadTranslation(translator);
    const tabs = new JobTabs<JobView>(app, 'job');
    addJobViewCommands({ app, model, trans, notebooks, languages, registry }, tabs);
    addToPalette(palette, trans, CommandIDs.openJob, CommandIDs.compareJobs);
    tabs.restore(restorer, CommandIDs.openJob);
  }
};
