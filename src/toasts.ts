// Showing toasts, each with the way to the panel.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { JobSummary } from './_types';
import { errand } from './errand';
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
  const callback = errand(commands, CommandIDs.openPanel);
  for (const { sentence, kind } of toastsFor(jobs, trans)) {
    Notification.emit(sentence, kind, {
      autoClose: kind === 'error' ? false : 5000,
      actions: callback ? [{ label, callback: () => callback() }] : []
    });
  }
}
