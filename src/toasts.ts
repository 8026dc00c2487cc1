// One toast when a job ends, one for all when many end together.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { JobSummary } from './_types';
import { CommandIDs } from './commands';
import { batchSentence, endSentence } from './format';

type Kind = 'success' | 'error' | 'info';

export interface IToast {
  sentence: string;
  kind: Kind;
}

/** More jobs than this that end together share one toast. */
const BATCH = 3;

const KINDS: Partial<Record<JobSummary['status'], Kind>> = {
  Completed: 'success',
  Failed: 'error'
};

/**
 * Decide what to say about jobs that ended together.
 */
export function toastsFor(jobs: readonly JobSummary[], trans: TranslationBundle): IToast[] {
  if (jobs.length > BATCH) {
    const kind = jobs.some(job => job.status === 'Failed') ? 'error' : 'success';
    return [{ sentence: batchSentence(jobs, trans), kind }];
  }
  return jobs.map(job => ({
    sentence: endSentence(job, trans),
    kind: KINDS[job.status] ?? 'info'
  }));
}

/**
 * Show toasts; each one leads to the panel.
 */
export function show(
  toasts: readonly IToast[],
  commands: CommandRegistry,
  trans: TranslationBundle
): void {
  const label = trans.__('Show jobs');
  const callback = (): void => void commands.execute(CommandIDs.openPanel);
  for (const { sentence, kind } of toasts) {
    Notification.emit(sentence, kind, {
      autoClose: kind === 'error' ? false : 5000,
      actions: commands.hasCommand(CommandIDs.openPanel) ? [{ label, callback }] : []
    });
  }
}
