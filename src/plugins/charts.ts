// Charts in the main area, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import { ApiClient } from '../api/client';
import type * as Charts from '../charts';
import { visibleCharts } from '../charts/openCharts';
import { CommandIDs, JOB_ARGS, NO_ARGS } from '../commands/commandIds';
import { jobsIcon } from '../components/icons';
import type { INamedJob } from '../state/state';
import { IJobsModel } from '../tokens';
import { JobTabs } from '../widgets/jobTabs';
import { addToPalette } from './palette';
import { loadTranslation } from './translation';

export const chartsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:charts',
  description: 'Plots metrics and resource usage of a job in the main area.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const trans = loadTranslation(translator);
    const tabs = new JobTabs<Charts.ChartsView>(app, 'charts', jobsIcon, name =>
      trans.__('Charts: %1', name)
    );
    app.commands.addCommand(CommandIDs.openCharts, {
      label: trans.__('Show Charts of Job'),
      caption: trans.__('Plot metrics and resource usage of a job over time'),
      describedBy: { args: JOB_ARGS },
      execute: async args => {
        const { jobFromArgs } = await import('../commands/prompts');
        const job = await jobFromArgs(args, model, trans);
        if (job) {
          const charts = await import('../charts');
          const api = new ApiClient(app.serviceManager.serverSettings);
          tabs.show(job, () => viewOf(charts, api, job, trans));
        }
      }
    });
    addForSeen(app.commands, trans);
    const { openCharts, pauseCharts, resetCharts } = CommandIDs;
    addToPalette(palette, trans, openCharts, pauseCharts, resetCharts);
    tabs.restore(restorer, openCharts);
  }
};

/** The commands for the charts that are seen; without any they cannot be chosen. */
function addForSeen(commands: CommandRegistry, trans: TranslationBundle): void {
  commands.addCommand(CommandIDs.pauseCharts, {
    label: trans.__('Pause Charts'),
    caption: trans.__('Pause or resume the current charts; the job keeps running'),
    describedBy: { args: NO_ARGS },
    isEnabled: () => visibleCharts().length > 0,
    isToggled: () => visibleCharts().some(charts => charts.isPaused),
    execute: () => visibleCharts().forEach(one => (one.isPaused ? one.resume() : one.pause()))
  });
  commands.addCommand(CommandIDs.resetCharts, {
    label: trans.__('Reset Zoom of Charts'),
    caption: trans.__('Show the full time range in the current charts'),
    describedBy: { args: NO_ARGS },
    isEnabled: () => visibleCharts().length > 0,
    execute: () => visibleCharts().forEach(charts => charts.zoom(null))
  });
}

function viewOf(
  { ChartsView, createHistorySource }: typeof Charts,
  api: ApiClient,
  { id, name }: INamedJob,
  trans: TranslationBundle
): Charts.ChartsView {
  const view = new ChartsView({
    source: createHistorySource(api, id),
    name,
    page: document,
    trans
  });
  view.title.caption = trans.__('Charts of %1', name);
  return view;
}
