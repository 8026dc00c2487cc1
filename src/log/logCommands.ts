// What one does with the log that one is in, as commands: for the palette, for shortcuts and for other extensions.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { TranslationBundle } from '@jupyterlab/translation';

import { LogCommandIDs, NO_ARGS } from '../commands/commandIds';
import type { ILogActions } from './actions';
import { findActions } from './actions';

/** Add the commands, and give their names. */
export function addLogCommands(app: JupyterFrontEnd, trans: TranslationBundle): string[] {
  const words: [string, string, keyof ILogActions][] = [
    [LogCommandIDs.find, trans.__('Find in Log'), 'find'],
    [LogCommandIDs.findNext, trans.__('Find Next in Log'), 'findNext'],
    [LogCommandIDs.findPrevious, trans.__('Find Previous in Log'), 'findPrevious'],
    [LogCommandIDs.toBegin, trans.__('Go to Beginning of Log'), 'toBegin'],
    [LogCommandIDs.toEnd, trans.__('Go to End of Log and Follow'), 'toEnd'],
    [LogCommandIDs.follow, trans.__('Follow Log'), 'toggleFollow'],
    [LogCommandIDs.wrap, trans.__('Wrap Lines of Log'), 'toggleWrap'],
    [LogCommandIDs.download, trans.__('Download Log'), 'download']
  ];
  const shown = (): ILogActions | null =>
    findActions(document.activeElement?.closest('.jp-smx-log')) ??
    findActions(app.shell.currentWidget?.node);
  for (const [id, label, act] of words) {
    app.commands.addCommand(id, {
      label,
      caption: trans.__('Applies to the log in the current tab'),
      describedBy: { args: NO_ARGS },
      isEnabled: () => shown() !== null,
      execute: () => shown()?.[act]()
    });
  }
  return words.map(([id]) => id);
}
