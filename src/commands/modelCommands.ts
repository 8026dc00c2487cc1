// The actions on jobs and pools, as commands: for buttons, the palette, shortcuts and other extensions.

import type { CommandRegistry } from '@lumino/commands';
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { refreshIcon, runIcon } from '@jupyterlab/ui-components';
import type { IDisposable } from '@lumino/disposable';
import { DisposableSet } from '@lumino/disposable';

import { filterFromArgs } from '../model/filter';
import { partitionJobs } from '../state/arrays';
import { canBeInterrupted, finishedJobs, runningJobs } from '../state/state';
import type { IJobsModel } from '../tokens';
import { addArrayCommands } from './arrayCommands';
import { deleteJobs } from './bulkDelete';
import { CommandIDs, FILTER_PROPERTY, idArgs, JOB_ARGS, NO_ARGS } from './commandIds';
import { confirmAction, jobFromArgs, notifyOnError, poolFromArgs } from './prompts';
import { followReachability, whileReachable } from './reachability';

/** Seconds that one press of the button adds to a pool. */
export const EXTENSION_SECONDS = 900;

/**
 * Add the commands that act on the model; disposing the result takes them away again.
 */
export function addModelCommands(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  const added = new DisposableSet();
  added.add(addRefresh(commands, model, trans));
  added.add(addWake(commands, model, trans));
  added.add(addStop(commands, model, trans));
  added.add(addInterrupt(commands, model, trans));
  added.add(addRerun(commands, model, trans));
  added.add(addDelete(commands, model, trans));
  added.add(addClear(commands, model, trans));
  added.add(addArrayCommands(commands, model, trans));
  added.add(addExtend(commands, model, trans));
  added.add(addRelease(commands, model, trans));
  added.add(followReachability(commands, model));
  return added;
}

function addRefresh(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.refresh, {
    label: trans.__('Refresh Jobs and Pools'),
    caption: trans.__('Reload the lists of jobs and pools'),
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
    caption: trans.__('Start the controller to list earlier jobs'),
    describedBy: { args: NO_ARGS },
    execute: () => notifyOnError(model.startController())
  });
}

function addStop(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.stopJob, {
    label: trans.__('Stop Job'),
    caption: trans.__('Stop a job, after confirmation'),
    ...whileReachable(model),
    describedBy: { args: JOB_ARGS },
    execute: async args => {
      const job = await jobFromArgs(args, model, trans, runningJobs(model.state));
      if (!job) {
        return;
      }
      const sure = await confirmAction(
        trans.__('Stop this job?'),
        trans.__('%1 will be stopped. Logs and outputs written so far are kept.', job.name),
        trans.__('Cancel'),
        trans.__('Stop')
      );
      if (sure) {
        await notifyOnError(model.stop(job));
      }
    }
  });
}

function addInterrupt(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.interruptJob, {
    label: trans.__('Interrupt Spot Job…'),
    caption: trans.__('Simulate a spot interruption to test whether the job recovers'),
    ...whileReachable(model),
    describedBy: { args: JOB_ARGS },
    execute: async args => {
      const spots = runningJobs(model.state).filter(canBeInterrupted);
      const job = await jobFromArgs(args, model, trans, spots);
      if (!job) {
        return;
      }
      const sure = await confirmAction(
        trans.__('Interrupt this spot job?'),
        trans.__(
          '%1 loses its hosts, as in a spot interruption: its code receives SIGTERM, is killed after the grace period, and restarts on other hosts. Only checkpoints and logs are kept, and this attempt is not billed.',
          job.name
        ),
        trans.__('Cancel'),
        trans.__('Interrupt')
      );
      if (sure) {
        await notifyOnError(model.interrupt(job));
      }
    }
  });
}

function addRerun(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.rerunJob, {
    label: trans.__('Rerun Job'),
    caption: trans.__('Rerun a job with the same code, variables and instances'),
    icon: runIcon,
    ...whileReachable(model),
    describedBy: { args: JOB_ARGS },
    execute: async args => {
      const job = await jobFromArgs(args, model, trans, finishedJobs(model.state));
      if (job) {
        const say = (name: string): unknown =>
          Notification.info(trans.__('%1 rerun as %2', job.name, name), {
            autoClose: 5000
          });
        await notifyOnError(model.rerun(job).then(say));
      }
    }
  });
}

function addDelete(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.deleteJob, {
    label: trans.__('Delete Finished Job'),
    caption: trans.__('Delete the record, log and artifacts of a finished job, after confirmation'),
    ...whileReachable(model),
    describedBy: { args: JOB_ARGS },
    execute: async args => {
      const job = await jobFromArgs(args, model, trans, finishedJobs(model.state));
      if (!job) {
        return;
      }
      const sure = await confirmAction(
        trans.__('Delete this job?'),
        trans.__('The record, log and artifacts of %1 will be deleted.', job.name),
        trans.__('Cancel'),
        trans.__('Delete')
      );
      if (sure) {
        await notifyOnError(model.remove(job));
      }
    }
  });
}

function addClear(
  commands: CommandRegistry,
  model: IJobsModel,
  trans: TranslationBundle
): IDisposable {
  return commands.addCommand(CommandIDs.clearFinished, {
    label: trans.__('Clear Finished Jobs'),
    caption: trans.__('Delete the listed finished jobs, after confirmation'),
    ...whileReachable(model),
    describedBy: { args: { type: 'object', properties: FILTER_PROPERTY } },
    execute: async args => {
      const jobs = filterFromArgs(args).jobs(partitionJobs(model.state).finished);
      if (jobs.length === 0) {
        Notification.info(trans.__('No finished jobs are listed.'), { autoClose: 5000 });
        return;
      }
      const sure = await confirmAction(
        trans._n('Delete %1 finished job?', 'Delete %1 finished jobs?', jobs.length),
        trans.__('Their records, logs and artifacts will be deleted.'),
        trans.__('Cancel'),
        trans.__('Delete')
      );
      if (sure) {
        await deleteJobs(jobs, model, trans);
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
    label: trans.__('Extend Pool by 15 Minutes'),
    caption: trans.__('Extend the expiration of an idle pool'),
    ...whileReachable(model),
    describedBy: { args: idArgs('ID of the pool; if omitted, a dialog asks for it') },
    execute: async args => {
      const pool = await poolFromArgs(args, model, trans);
      if (pool) {
        await notifyOnError(model.extend(pool, EXTENSION_SECONDS));
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
    caption: trans.__('Release an idle pool now'),
    ...whileReachable(model),
    describedBy: { args: idArgs('ID of the pool; if omitted, a dialog asks for it') },
    execute: async args => {
      const pool = await poolFromArgs(args, model, trans);
      if (pool) {
        await notifyOnError(model.release(pool));
      }
    }
  });
}
