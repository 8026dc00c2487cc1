// Dialogs and messages of commands: the choice of a job, a confirmation, an error.

import { Dialog, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type { PoolSummary } from '../_types';
import { errorText } from '../api/errors';
import { formatEngine } from '../format/jobText';
import type { INamedJob } from '../state/state';
import { idlePools, orderedJobs } from '../state/state';
import type { IJobsModel } from '../tokens';

export function idFromArgs(args: ReadonlyPartialJSONObject): string {
  return typeof args.id === 'string' ? args.id : '';
}

/**
 * Return the job that the arguments name; without one, the only candidate or the one that the user chooses.
 *
 * A job that is not listed may exist: it may be older than the listed ones, or the page may have listed none yet.
 */
export async function jobFromArgs(
  args: ReadonlyPartialJSONObject,
  { state }: IJobsModel,
  trans: TranslationBundle,
  candidates: readonly INamedJob[] = orderedJobs(state)
): Promise<INamedJob | null> {
  const id = idFromArgs(args);
  if (!id) {
    return chooseItem(candidates, job => job.name, trans.__('Select Job'), trans);
  }
  const name = typeof args.name === 'string' ? args.name : '';
  return { id, name: state.jobs.get(id)?.name ?? (name || id) };
}

/** Return the same for a pool; the candidates are the idle pools by default. */
export function poolFromArgs(
  args: ReadonlyPartialJSONObject,
  { state }: IJobsModel,
  trans: TranslationBundle,
  candidates: readonly PoolSummary[] = idlePools(state)
): Promise<PoolSummary | null> {
  const id = idFromArgs(args);
  if (id) {
    return Promise.resolve(state.pools.get(id) ?? null);
  }
  const nameOf = (pool: PoolSummary): string =>
    trans.__('%1 (%2, %3)', pool.name, pool.instances, formatEngine(pool.engine, pool.machines));
  return chooseItem(candidates, nameOf, trans.__('Select Pool'), trans);
}

/** Return the only candidate, or the one that the user chooses among several. */
export async function chooseItem<T>(
  candidates: readonly T[],
  nameOf: (one: T) => string,
  title: string,
  trans: TranslationBundle
): Promise<T | null> {
  if (candidates.length < 2) {
    if (candidates.length === 0) {
      Notification.info(trans.__('No job or pool matches this command.'), { autoClose: 5000 });
    }
    return candidates[0] ?? null;
  }
  const names = candidates.map(nameOf);
  const { value } = await InputDialog.getItem({ title, items: names });
  return candidates[names.indexOf(value ?? '')] ?? null;
}

/** Ask before an action that cannot be undone; `no` and `yes` are the labels of the buttons. */
export async function confirmAction(
  title: string,
  body: string,
  no: string,
  yes: string
): Promise<boolean> {
  const buttons = [Dialog.cancelButton({ label: no }), Dialog.warnButton({ label: yes })];
  const answer = await showDialog({ title, body, buttons });
  return answer.button.accept;
}

/** Wait for an action; on failure show the message of the server. */
export async function notifyOnError(action: Promise<unknown>): Promise<void> {
  try {
    await action;
  } catch (reason) {
    // With the default timeout the message becomes a number in the status bar, and the user may never read it.
    Notification.error(errorText(reason), { autoClose: false });
  }
}
