// The plugins, one per feature, so that a deployment can switch off each of them alone.

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { cardPlugin } from './plugins/card';
import { commandsPlugin } from './plugins/commands';
import { modelPlugin } from './plugins/model';
import { sidebarPlugin } from './plugins/sidebar';
import { toastsPlugin } from './plugins/toasts';

export { IJobsModel } from './tokens';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  modelPlugin,
  commandsPlugin,
  sidebarPlugin,
  toastsPlugin,
  cardPlugin
];
export default plugins;
