// The view of a job, loaded with the first one that is opened.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { Api } from '../api/client';
import { historyOf } from '../charts/historySource';
import type { ILogLooks } from '../log/index';
import { LogView, logOf } from '../log/index';
import type { INamedJob } from '../state/state';
import type { IJobsModel } from '../tokens';
import { Origins } from './codeLocator';
import { JobRecord } from './jobRecord';
import { jobSource } from './jobSource';
import { JobView } from './jobView';

export { logLooks } from '../log/index';
export { JobView } from './jobView';
export type { SectionName } from './jobView';

export interface IOpenOptions {
  app: JupyterFrontEnd;
  model: IJobsModel;
  trans: TranslationBundle;
  notebooks: INotebookTracker | null;
  languages: IEditorLanguageRegistry | null;
  /** Says how its log is shown. */
  registry: ISettingRegistry | null;
}

/** Make the view of a job; the name is what is known of it before its record is read. */
export function viewOf(
  { id, name }: INamedJob,
  { app, model, trans, notebooks, languages }: IOpenOptions,
  looks: ILogLooks
): JobView {
  const api = new Api(app.serviceManager.serverSettings);
  const source = jobSource(api, id);
  const record = new JobRecord({ id, model, source, page: document, random: Math.random });
  const log = new LogView({ source: logOf(api, id), name, page: document, trans, ...looks });
  const view: JobView = new JobView(
    {
      name,
      record,
      source,
      history: historyOf(api, id),
      model,
      trans,
      languages,
      commands: app.commands,
      origins: new Origins(app, notebooks),
      close: () => view.parent?.dispose()
    },
    log
  );
  return view;
}
