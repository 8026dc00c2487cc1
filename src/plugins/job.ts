// The view of a job in the main area, as a plugin: one tab for each job, which comes back when the page is loaded again.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import type { MainAreaWidget } from '@jupyterlab/apputils';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../ids';
import { IJobsModel } from '../tokens';
import type { JobView } from '../view';
import { addJobCommands } from '../view/commands';
import { addToPalette } from './palette';
import { wordsOf } from './words';

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
    IEditorLanguageRegistry
  ],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    notebooks: INotebookTracker | null,
    languages: IEditorLanguageRegistry | null
  ): void => {
    const trans = wordsOf(translator);
    const tabs = new WidgetTracker<MainAreaWidget<JobView>>({ namespace: 'jupyter-smx-job' });
    addJobCommands({ app, model, trans, notebooks, languages }, tabs);
    addToPalette(palette, trans, CommandIDs.openJob, CommandIDs.compareJobs);
    void restorer?.restore(tabs, {
      command: CommandIDs.openJob,
      args: tab => ({ id: tab.content.id, name: tab.title.label }),
      name: tab => tab.content.id
    });
  }
};
