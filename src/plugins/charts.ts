// Charts in the main area, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { Api } from '../api';
import type * as Charts from '../charts';
import { seenCharts } from '../charts/open';
import { jobsIcon } from '../icons';
import { CommandIDs, NO_ARGS } from '../ids';
import { place } from '../place';
import { IJobsModel } from '../tokens';
import { addToPalette } from './palette';
import { wordsOf } from './words';

/** What of a job a tab with its charts needs; the page that is loaded again knows no more at first. */
interface INamed {
  id: string;
  name: string;
}

export const chartsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:charts',
  description: 'Draws the metrics of a job, and what it uses, in the main area.',
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
    const trans = wordsOf(translator);
    const tabs = new WidgetTracker<MainAreaWidget<Charts.ChartsView>>({
      namespace: 'jupyter-smx-charts'
    });
    const properties = {
      id: { type: 'string', description: 'The id of the job; without it, which one is asked' },
      name: { type: 'string', description: 'Its name, of a job that the panel does not list' }
    };
    app.commands.addCommand(CommandIDs.openCharts, {
      label: trans.__('Show Charts of Job'),
      caption: trans.__('Draw the metrics of a job, and what it uses, over time'),
      describedBy: { args: { type: 'object', properties } },
      execute: async args => {
        const { jobOf } = await import('../ask');
        const { finished, running } = await import('../state');
        const { state } = model;
        const jobs = [...running(state), ...finished(state)];
        const job = (await jobOf(args, model, jobs, trans)) ?? named(args);
        if (job) {
          const charts = await import('../charts');
          if (!tabs.find(tab => tab.id === tabId(job))) {
            void tabs.add(opened(charts, app, job, trans));
          }
          app.shell.activateById(tabId(job));
        }
      }
    });
    addForSeen(app.commands, trans);
    const { openCharts, pauseCharts, resetCharts } = CommandIDs;
    addToPalette(palette, trans, openCharts, pauseCharts, resetCharts);
    void restorer?.restore(tabs, {
      command: CommandIDs.openCharts,
      args: tab => ({ id: tab.id.slice(PREFIX.length), name: tab.title.label }),
      name: tab => tab.id
    });
  }
};

const PREFIX = 'jupyter-smx-charts-';

/** The commands for the charts that are seen; without any they cannot be chosen. */
function addForSeen(commands: CommandRegistry, trans: TranslationBundle): void {
  commands.addCommand(CommandIDs.pauseCharts, {
    label: trans.__('Pause Charts'),
    caption: trans.__('Let the charts that are shown stand still, or go on; the job goes on'),
    describedBy: { args: NO_ARGS },
    isEnabled: () => seenCharts().length > 0,
    isToggled: () => seenCharts().some(charts => charts.isPaused),
    execute: () => seenCharts().forEach(one => (one.isPaused ? one.resume() : one.pause()))
  });
  commands.addCommand(CommandIDs.resetCharts, {
    label: trans.__('Reset Zoom of Charts'),
    caption: trans.__('Show all of the time in the charts that are shown'),
    describedBy: { args: NO_ARGS },
    isEnabled: () => seenCharts().length > 0,
    execute: () => seenCharts().forEach(charts => charts.zoom(null))
  });
}

function tabId({ id }: INamed): string {
  return PREFIX + id;
}

function named({ id, name }: ReadonlyPartialJSONObject): INamed | null {
  return typeof id === 'string' && typeof name === 'string' ? { id, name } : null;
}

function opened(
  { ChartsView, historyOf }: typeof Charts,
  app: JupyterFrontEnd,
  { id, name }: INamed,
  trans: TranslationBundle
): MainAreaWidget<Charts.ChartsView> {
  const content = new ChartsView({
    source: historyOf(new Api(app.serviceManager.serverSettings), id),
    name,
    page: document,
    trans
  });
  const tab = new MainAreaWidget({ content });
  tab.id = PREFIX + id;
  tab.title.label = name;
  tab.title.caption = trans.__('Charts of %1', name);
  tab.title.icon = jobsIcon;
  tab.title.closable = true;
  place(app.shell, tab);
  return tab;
}
