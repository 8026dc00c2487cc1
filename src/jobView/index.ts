// The view of a job, loaded with the first one that is opened.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiClient } from '../api/client';
import { createHistorySource } from '../charts/historySource';
import { describeJobFailure } from '../format/failureText';
import type { ILogDisplayOptions } from '../log/index';
import { createLogSource, LogView } from '../log/index';
import type { INamedJob } from '../state/state';
import type { IJobsModel } from '../tokens';
import { CodeLocator } from './codeLocator';
import { JobRecord } from './jobRecord';
import { createJobSource } from './jobSource';
import { JobView } from './jobView';

export { loadDisplayOptions } from '../log/index';
export { JobView } from './jobView';
export type { SectionName } from './jobView';

export interface IJobViewOptions {
  app: JupyterFrontEnd;
  model: IJobsModel;
  trans: TranslationBundle;
  notebooks: INotebookTracker | null;
  languages: IEditorLanguageRegistry | null;
  /** Says how its log is shown. */
  registry: ISettingRegistry | null;
}

/** Make the view of a job; the name is what is known of it before its record is read. */
export function createJobView(
  { id, name }: INamedJob,
  { app, model, trans, notebooks, languages }: IJobViewOptions,
  displayOptions: ILogDisplayOptions
): JobView {
  const api = new ApiClient(app.serviceManager.serverSettings);
  const source = createJobSource(api, id);
  const record = new JobRecord({ id, model, source, page: document, random: Math.random });
  const log = new LogView({
    source: createLogSource(api, id),
    name,
    page: document,
    trans,
    failure: {
      read: () => record.summary && describeJobFailure(record.summary, record.job, trans),
      changed: record.changed
    },
    ...displayOptions
  });
  const view: JobView = new JobView(
    {
      name,
      record,
      source,
      history: createHistorySource(api, id),
      model,
      trans,
      languages,
      commands: app.commands,
      codeLocator: new CodeLocator(app, notebooks),
      close: () => view.parent?.dispose()
    },
    log
  );
  return view;
}
