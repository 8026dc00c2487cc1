// Inserts a cell with code into the notebook in front.

import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

/** Lab's own command: enabled while a notebook is in front. */
const INSERT = 'notebook:insert-cell-below';

/** Insert a cell below the selected one and select it; without a notebook, say what to do. */
export async function insertCell(
  source: string,
  commands: CommandRegistry,
  tracker: Pick<INotebookTracker, 'activeCell'>,
  trans: TranslationBundle
): Promise<void> {
  if (!commands.hasCommand(INSERT) || !commands.isEnabled(INSERT)) {
    Notification.info(trans.__('No notebook is open in front. Open one, then insert the cell.'), {
      autoClose: 5000
    });
    return;
  }
  await commands.execute(INSERT);
  // Into the model: the editor of a new cell comes with the next frame.
  tracker.activeCell?.model.sharedModel.setSource(source);
}
