// Where a widget of the main area goes: beside the documents, or under the one of a Notebook 7 page.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Widget } from '@lumino/widgets';

/**
 * Add a widget to the main area, or where the page has one document only, under it.
 */
export function addToMainArea(shell: JupyterFrontEnd.IShell, widget: Widget): void {
  void shell.add(widget, 'main');
  // Notebook 7 takes one widget there and passes over all others without a word.
  if (!widget.isAttached) {
    widget.addClass('jp-smx-under');
    void shell.add(widget, 'down');
  }
}
