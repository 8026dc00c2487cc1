// Jobs and idle pools as items of Lab's own list of what runs: pure functions over the model.

import type { IRunningSessions } from '@jupyterlab/running';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { JobSummary, PoolSummary } from '../_types';
import { CommandIDs } from '../commands/commandIds';
import { commandRunner, itemCommandRunner } from '../commands/commandRunner';
import { jobsIcon } from '../components/icons';
import { formatEngine, formatStep } from '../format/jobText';
import { idlePools, runningJobs } from '../state/state';
import type { IJobsModel } from '../tokens';

/**
 * The section "Jobs and pools": a job is stopped there after a question, an idle pool is released at once.
 */
export function runningManager(
  model: IJobsModel,
  commands: CommandRegistry,
  trans: TranslationBundle
): IRunningSessions.IManager {
  const open = (): void => commandRunner(commands, CommandIDs.openPanel)?.();
  // Without the command there is no button for it.
  const shutdown = (command: string, id: string): (() => void) | undefined => {
    const act = itemCommandRunner(commands, command);
    return act && (() => act({ id }));
  };
  const jobItem = (job: JobSummary): IRunningSessions.IRunningItem => ({
    open,
    icon: () => jobsIcon,
    label: () => job.name,
    labelTitle: () => trans.__('%1 on %2', job.name, job.instances),
    detail: () => formatStep(job, trans),
    shutdown: shutdown(CommandIDs.stopJob, job.id)
  });
  const poolItem = (pool: PoolSummary): IRunningSessions.IRunningItem => ({
    open,
    icon: () => jobsIcon,
    label: () => trans.__('Pool %1', pool.name),
    labelTitle: () => trans.__('%1 on %2', pool.instances, engineOf(pool)),
    detail: () => (pool.unreachable ? trans.__('Not reachable') : trans.__('Available')),
    shutdown: shutdown(CommandIDs.releasePool, pool.id)
  });
  return {
    name: trans.__('Jobs and pools'),
    running: () => [
      ...runningJobs(model.state).map(jobItem),
      ...idlePools(model.state).map(poolItem)
    ],
    refreshRunning: () => void model.refresh(),
    runningChanged: model.changed,
    shutdownLabel: trans.__('Stop'),
    shutdownAllLabel: trans.__('Stop All'),
    // JupyterLab before 4.3 takes no function here.
    shutdownAllConfirmationText: trans.__('All jobs will be stopped and all idle pools released.'),
    shutdownAll: () => {
      const ends = [
        ...runningJobs(model.state).map(job => model.stop(job)),
        ...idlePools(model.state).map(pool => model.release(pool))
      ];
      // Whatever could not be ended is still in the list.
      const tried = ends.map(end => end.catch(() => undefined));
      void Promise.all(tried).then(() => model.refresh());
    }
  };
}

function engineOf({ engine, machines }: PoolSummary): string {
  return formatEngine(engine, machines);
}
