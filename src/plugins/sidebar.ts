// The panel of the left sidebar, as a plugin.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';

import { CommandIDs, NO_ARGS } from '../commands/commandIds';
import { jobsIcon } from '../components/icons';
import { insertCell } from '../sidebar/insertCell';
import { describePanel, JobsPanel } from '../sidebar/jobsPanel';
import { IJobsModel } from '../tokens';
import { holdFocus } from '../widgets/focusHold';
import { addToPalette } from './palette';
import { onSettingChange } from './settingListener';
import { loadTranslation } from './translation';

/** Third-party sidebars stand between 501 and 899. */
const SIDEBAR_RANK = 510;

export const sidebarPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-smx:sidebar',
  description: 'Adds the panel "Jobs and pools" to the left sidebar.',
  autoStart: true,
  requires: [IJobsModel],
  optional: [ITranslator, ILayoutRestorer, ICommandPalette, ISettingRegistry, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    model: IJobsModel,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null,
    notebooks: INotebookTracker | null
  ): void => {
    const trans = loadTranslation(translator);
    const loginUrl = URLExt.join(app.serviceManager.serverSettings.baseUrl, 'login');
    let settings: ISettingRegistry.ISettings | null = null;
    const panel = new JobsPanel({
      model,
      commands: app.commands,
      trans,
      loginUrl,
      // Where settings cannot be written, the order holds for this page.
      keepOrder: order => void settings?.set('finishedOrder', order).catch(() => undefined),
      insertCell: cellInserter(app, notebooks, trans)
    });
    app.shell.add(panel, 'left', { rank: SIDEBAR_RANK });
    restorer?.add(panel, panel.id);
    void app.restored.then(() => panel.load());
    app.commands.addCommand(CommandIDs.openPanel, {
      label: trans.__('Show Jobs and Pools'),
      // The tooltip of the launcher's card.
      caption: () => describePanel(model, trans),
      icon: jobsIcon,
      describedBy: { args: NO_ARGS },
      execute: () => {
        const { currentWidget } = app.shell;
        if (currentWidget) {
          holdFocus(panel.node, currentWidget.node);
        }
        app.shell.activateById(panel.id);
      }
    });
    addToPalette(palette, trans, CommandIDs.openPanel);
    void registry?.load(sidebarPlugin.id).then(
      loaded => {
        settings = loaded;
        // Lab restores which sections were open the last time, and what is set goes before.
        void app.restored.then(() => followSettings(loaded, panel, model));
      },
      () => undefined
    );
  }
};

function followSettings(
  settings: ISettingRegistry.ISettings,
  panel: JobsPanel,
  model: IJobsModel
): void {
  onSettingChange(settings, 'openSections', value => panel.unfold(value as string[]))();
  onSettingChange(
    settings,
    'finishedRows',
    value => void model.setFinishedLimit(value as number)
  )();
  onSettingChange(settings, 'finishedOrder', value => panel.sortFinished(value))();
}

/** What inserts a cell into the notebook in front; undefined on a page without notebooks. */
function cellInserter(
  { commands }: JupyterFrontEnd,
  notebooks: INotebookTracker | null,
  trans: TranslationBundle
): ((source: string) => void) | undefined {
  return notebooks ? source => void insertCell(source, commands, notebooks, trans) : undefined;
}
