// Showing toasts, each with the way to its job and to the panel.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { JobSummary } from './_types';
import { errand } from './errand';
import { CommandIDs } from './ids';
import { toastsFor } from './toast';

/**
 * Say that jobs ended; each toast leads to its job and to the panel.
 */
export function announce(
  jobs: readonly JobSummary[],
  commands: CommandRegistry,
  trans: TranslationBundle
): void {
  const [open, show] = [CommandIDs.openJob, CommandIDs.openPanel].map(id => errand(commands, id));
  for (const { sentence, kind, job } of toastsFor(jobs, trans)) {
    const actions: Notification.IAction[] = [];
    if (open && job) {
      actions.push({ label: trans.__('Open job'), callback: () => open({ id: job }) });
    }
    if (show) {
      actions.push({ label: trans.__('Show jobs'), callback: () => show() });
    }
    Notification.emit(sentence, kind, { autoClose: kind === 'error' ? false : 5000, actions });
  }
}
