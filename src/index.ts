// The plugins, one per feature, so that a deployment can switch off each of them alone.

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { awsPlugin } from './plugins/aws';
import { cardPlugin } from './plugins/card';
import { cellsPlugin } from './plugins/cells';
import { chartsPlugin } from './plugins/charts';
import { commandsPlugin } from './plugins/commands';
import { jobPlugin } from './plugins/job';
import { launcherPlugin } from './plugins/launcher';
import { logPlugin } from './plugins/log';
import { modelPlugin } from './plugins/model';
import { runningPlugin } from './plugins/running';
import { shellsPlugin } from './plugins/shells';
import { sidebarPlugin } from './plugins/sidebar';
import { statusPlugin } from './plugins/status';
import { toastsPlugin } from './plugins/toasts';

export { IJobsModel } from './tokens';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  modelPlugin,
  commandsPlugin,
  sidebarPlugin,
  toastsPlugin,
  statusPlugin,
  awsPlugin,
  runningPlugin,
  launcherPlugin,
  logPlugin,
  chartsPlugin,
  jobPlugin,
  shellsPlugin,
  cardPlugin,
  cellsPlugin
];
export default plugins;
