// The item of the status bar that says that clients of SageMaker train here, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { loadTranslation } from './translation';

export const awsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:aws',
  description: 'Says in the status bar when clients of Amazon SageMaker train here.',
  autoStart: true,
  optional: [IStatusBar, ITranslator],
  activate: (
    _app: JupyterFrontEnd,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    // The Jupyter server sets it where kernels and terminals inherit the variables.
    const address = PageConfig.getOption('smxAws');
    if (!bar || !address) {
      return;
    }
    const trans = loadTranslation(translator);
    const item = new Widget();
    item.addClass('jp-smx-aws');
    item.node.textContent = trans.__('AWS → local');
    item.node.title = trans.__(
      'SageMaker clients of new kernels and terminals train here (%1). Back to AWS in a notebook: %smx aws off',
      address
    );
    bar.registerStatusItem(awsPlugin.id, { item, align: 'left', rank: 21 });
  }
};
