// The actions on arrays, as commands.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { runIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { DisposableSet } from '@lumino/disposable';

import type { JobSummary } from '../_types';
import { filterFromArgs } from '../model/filter';
import type { IArrayGroup } from '../state/arrays';
import { arrayCounts, groupByArray, partitionJobs } from '../state/arrays';
import { isFinal } from '../state/state';
import type { IJobsModel } from '../tokens';
import { deleteJobs } from './bulkDelete';
import { CommandIDs, FILTER_PROPERTY, idArgs } from './commandIds';
import { chooseItem, confirmAction, idFromArgs, notifyOnError } from './prompts';
import { whileReachable } from './reachability';

/**
 * Add the commands that act on arrays; disposing the result takes them away again.
 */
export function addArrayCommands(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  const added = new DisposableSet();
  added.add(addStopArray(commands, model, trans));
  added.add(addRerunFailedTasks(commands, model, trans));
  added.add(addDeleteArray(commands, model, trans));
  return added;
}

function addStopArray(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.stopArray, {
    label: trans.__('Stop All Tasks of Array'),
    caption: trans.__('Stop all tasks of an array, after confirmation'),
    ...whileReachable(model),
    describedBy: { args: idArgs('ID of the array; if omitted, a dialog asks for it') },
    execute: async args => {
      const array = await arrayOf(args, model, trans, 'running');
      if (!array) {
        return;
      }
      const { pending, running } = arrayCounts(array);
      const sure = await confirmAction(
        trans.__('Stop all tasks of %1?', array.name),
        trans.__(
          'Running tasks (%1) will be stopped, and waiting tasks (%2) will not start. Logs and outputs written so far are kept.',
          running,
          pending
        ),
        trans.__('Cancel'),
        trans.__('Stop All')
      );
      if (sure) {
        await notifyOnError(model.stopArray(array.id));
      }
    }
  });
}

function addRerunFailedTasks(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.rerunFailedTasks, {
    label: trans.__('Rerun Failed Tasks of Array'),
    caption: trans.__('Rerun each failed task of an array as a job of its own, after confirmation'),
    icon: runIcon,
    ...whileReachable(model),
    describedBy: { args: idArgs('ID of the array; if omitted, a dialog asks for it') },
    execute: async args => {
      const array = await arrayOf(args, model, trans, 'failed');
      const tasks = failedTasks(array);
      if (!array || tasks.length === 0) {
        return;
      }
      const { length } = tasks;
      const others = arrayCounts(array).failed - length;
      const sure = await confirmAction(
        trans._n(
          'Rerun the failed task of %2?',
          'Rerun %1 failed tasks of %2?',
          length,
          array.name
        ),
        trans.__('Each task runs again as a job of its own, with the same code and values.') +
          (others > 0
            ? trans._n(
                ' One more failed task is not in the list of the panel, and stays as it is.',
                ' %1 more failed tasks are not in the list of the panel, and stay as they are.',
                others
              )
            : ''),
        trans.__('Cancel'),
        trans.__('Rerun')
      );
      if (sure) {
        await notifyOnError(rerunTasks(tasks, model, trans));
      }
    }
  });
}

function failedTasks(array: IArrayGroup | null): JobSummary[] {
  return array?.tasks.filter(task => task.status === 'Failed') ?? [];
}

/** Submit one task after the other, so that the first refusal ends it; say how many run again, also then. */
async function rerunTasks(
  tasks: readonly JobSummary[],
  model: IJobsModel,
  trans: TranslationBundle
): Promise<void> {
  let count = 0;
  try {
    for (const task of tasks) {
      await model.rerun(task);
      count += 1;
    }
  } finally {
    if (count > 0) {
      const words =
        count === tasks.length
          ? trans._n('%1 task runs again', '%1 tasks run again', count)
          : trans.__('%1 of %2 failed tasks run again', count, tasks.length);
      Notification.info(words, { autoClose: 5000 });
    }
  }
}

function addDeleteArray(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.deleteArray, {
    label: trans.__('Delete Tasks of Array'),
    caption: trans.__('Delete the listed tasks of a finished array, after confirmation'),
    ...whileReachable(model),
    describedBy: {
      args: idArgs('ID of the array; if omitted, a dialog asks for it', FILTER_PROPERTY)
    },
    execute: async args => {
      const array = await arrayOf(args, model, trans, 'finished');
      const tasks = filterFromArgs(args)
        .jobs(array?.tasks ?? [])
        .filter(isFinal);
      if (!array || tasks.length === 0) {
        return;
      }
      const sure = await confirmAction(
        trans._n('Delete %1 task of %2?', 'Delete %1 tasks of %2?', tasks.length, array.name),
        trans.__('Their records, logs and artifacts will be deleted.'),
        trans.__('Cancel'),
        trans.__('Delete')
      );
      if (sure) {
        await deleteJobs(tasks, model, trans);
      }
    }
  });
}

/** The array that the arguments name, or one of a section of the panel. */
function arrayOf(
  args: ReadonlyPartialJSONObject,
  { state }: IJobsModel,
  trans: TranslationBundle,
  section: 'running' | 'finished' | 'failed'
): Promise<IArrayGroup | null> {
  const rows = (jobs: ReturnType<typeof partitionJobs>['running']): IArrayGroup[] =>
    groupByArray(jobs, state.arrays).filter((row): row is IArrayGroup => 'tasks' in row);
  const id = idFromArgs(args);
  const all = rows([...state.jobs.values()]);
  if (id) {
    return Promise.resolve(all.find(row => row.id === id) ?? null);
  }
  const offered =
    section === 'failed'
      ? all.filter(row => failedTasks(row).length > 0)
      : rows(partitionJobs(state)[section]);
  const nameOf = ({ title, name }: IArrayGroup): string => (title ? `${title} · ${name}` : name);
  return chooseItem(offered, nameOf, trans.__('Select Array'), trans);
}
