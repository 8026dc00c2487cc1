// Showing toasts, each with the way to the panel.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { JobSummary } from './_types';
import { CommandIDs } from './ids';
import { toastsFor } from './toast';

/**
 * Say that jobs ended; each toast leads to the panel.
 */
export function announce(
  jobs: readonly JobSummary[],
  commands: CommandRegistry,
  trans: TranslationBundle
): void {
  const label = trans.__('Show jobs');
  const callback = (): void => void commands.execute(CommandIDs.openPanel);
  for (const { sentence, kind } of toastsFor(jobs, trans)) {
    Notification.emit(sentence, kind, {
      autoClose: kind === 'error' ? false : 5000,
      actions: commands.hasCommand(CommandIDs.openPanel) ? [{ label, callback }] : []
    });
  }
}
