// The actions on jobs and pools, as commands: for buttons, the palette, shortcuts and other extensions.

import type { CommandRegistry } from '@lumino/commands';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { refreshIcon } from '@jupyterlab/ui-components';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { DisposableSet } from '@lumino/disposable';

import type { IJobsModel } from './tokens';

export namespace CommandIDs {
  export const refresh = 'jupyter-smx:refresh';
  export const stopJob = 'jupyter-smx:stop-job';
  export const extendPool = 'jupyter-smx:extend-pool';
  export const releasePool = 'jupyter-smx:release-pool';
  export const wake = 'jupyter-smx:start-controller';
  export const openPanel = 'jupyter-smx:open-panel';
}

/** Seconds that one press of the button adds to a pool. */
export const EXTENSION_SECONDS = 900;

const NO_ARGS: ReadonlyJSONObject = { type: 'object', properties: {} };

function idArgs(description: string): ReadonlyJSONObject {
  return {
    type: 'object',
    required: ['id'],
    properties: { id: { type: 'string', description } }
  };
}

function idOf(args: ReadonlyPartialJSONObject): string {
  return typeof args.id === 'string' ? args.id : '';
}

/**
 * Add the commands that act on the model; disposing the result takes them away again.
 */
export function addCommands(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  const added = new DisposableSet();
  added.add(addRefresh(commands, model, trans));
  added.add(addWake(commands, model, trans));
  added.add(addStop(commands, model, trans));
  added.add(addExtend(commands, model, trans));
  added.add(addRelease(commands, model, trans));
  return added;
}

function addRefresh(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.refresh, {
    label: trans.__('Refresh Jobs and Pools'),
    caption: trans.__('List the jobs and pools again'),
    icon: refreshIcon,
    describedBy: { args: NO_ARGS },
    execute: () => model.refresh()
  });
}

function addWake(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.wake, {
    label: trans.__('Show Earlier Jobs'),
    caption: trans.__('Start the controller, which knows them'),
    describedBy: { args: NO_ARGS },
    execute: () => told(model.wake())
  });
}

function addStop(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.stopJob, {
    label: trans.__('Stop Job'),
    describedBy: { args: idArgs('The id of the job') },
    execute: async args => {
      const job = model.state.jobs.get(idOf(args));
      if (!job) {
        return;
      }
      const answer = await showDialog({
        title: trans.__('Stop this job?'),
        body: trans.__('%1 gets the signal to end. What it wrote so far is kept.', job.name),
        buttons: [
          Dialog.cancelButton({ label: trans.__('Let It Run') }),
          Dialog.warnButton({ label: trans.__('Stop') })
        ]
      });
      if (answer.button.accept) {
        await told(model.stop(job));
      }
    }
  });
}

function addExtend(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.extendPool, {
    label: trans.__('Keep Pool 15 Minutes Longer'),
    describedBy: { args: idArgs('The id of the pool') },
    execute: async args => {
      const pool = model.state.pools.get(idOf(args));
      if (pool) {
        await told(model.extend(pool, EXTENSION_SECONDS));
      }
    }
  });
}

function addRelease(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.releasePool, {
    label: trans.__('Release Pool'),
    describedBy: { args: idArgs('The id of the pool') },
    execute: async args => {
      const pool = model.state.pools.get(idOf(args));
      if (pool) {
        await told(model.release(pool));
      }
    }
  });
}

/** Wait for an action and say its failure in the sentence that the server gave. */
async function told(action: Promise<void>): Promise<void> {
  try {
    await action;
  } catch (reason) {
    Notification.error(reason instanceof Error ? reason.message : String(reason));
  }
}
