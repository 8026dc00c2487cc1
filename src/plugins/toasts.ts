// Notifications about jobs that ended, as a plugin with its settings.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';

import { IJobsModel } from '../tokens';
import { wordsOf } from './words';

export const toastsPlugin: JupyterFrontEndPlugin<void> = {
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
    const trans = wordsOf(translator);
    const loaded = settings?.load(toastsPlugin.id).catch(() => null) ?? Promise.resolve(null);
    model.ended.connect((_, jobs) => {
      void loaded.then(async found => {
        if (found?.get('jobEnded').composite !== false) {
          const { announce } = await import('../toasts');
          announce(jobs, app.commands, trans);
        }
      });
    });
  }
};
