// The item of the status bar that says that a front for clients of SageMaker runs here, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator } from '@jupyterlab/translation';

import { IJobsModel } from '../tokens';
import { loadTranslation } from './translation';

export const awsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:aws',
  description: 'Says in the status bar when clients of Amazon SageMaker train here.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [IStatusBar, ITranslator],
  activate: (
    _app: JupyterFrontEnd,
    model: IJobsModel,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    // Few pages have a front: the code of the item is loaded with the first one.
    const add = (): void => {
      if (bar && model.state.awsUrl) {
        model.changed.disconnect(add);
        void import('../widgets/awsItem').then(({ addAwsItem }) =>
          addAwsItem(awsPlugin.id, bar, model, loadTranslation(translator))
        );
      }
    };
    model.changed.connect(add);
    add();
  }
};
