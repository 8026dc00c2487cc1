// Where a widget of the main area goes: beside the documents, or under or beside the one of a Notebook 7 page.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Widget } from '@lumino/widgets';

const UNDER = 'jp-smx-under';
const BESIDE = 'jp-smx-beside';

/**
 * Add a widget to the main area. A page that has one document only takes it under that, or else beside it.
 */
export function addToMainArea(shell: JupyterFrontEnd.IShell, widget: Widget): void {
  void shell.add(widget, 'main');
  // Notebook 7 takes one widget there and passes over all others without a word.
  if (!widget.isAttached) {
    widget.addClass(UNDER);
    void shell.add(widget, 'down');
  }
  // Before 7.4 nothing can be under the document.
  if (!widget.isAttached) {
    widget.removeClass(UNDER);
    widget.addClass(BESIDE);
    void shell.add(widget, 'right');
  }
}

/** Show a widget that was added so. */
export function activateInMainArea(shell: JupyterFrontEnd.IShell, widget: Widget): void {
  // There the side panel closes when its visible widget is activated a second time.
  if (widget.hasClass(BESIDE) && widget.isVisible) {
    widget.activate();
  } else {
    shell.activateById(widget.id);
  }
}
