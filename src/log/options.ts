// What a log in any view is given beside its job: how it is shown at first, and what starts the controller from it.

import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { LOG_PLUGIN } from '../commands/commandIds';
import { notifyOnError } from '../commands/prompts';
import { describeJobFailure } from '../format/failureText';
import type { IJobsModel } from '../tokens';
import type { ILogFailure } from './logView';

export interface ILogDisplayOptions {
  /** Start what answers, where nothing does because nothing was to do; a failure is told there. */
  startController?: () => Promise<void>;
  /** Whether long lines are broken at first; they are. */
  isWrapped?: boolean;
}

/** By the settings, where there are some. */
export async function loadDisplayOptions(
  model: IJobsModel,
  registry: ISettingRegistry | null
): Promise<ILogDisplayOptions> {
  const settings = await registry?.load(LOG_PLUGIN).catch(() => null);
  return {
    isWrapped: settings?.get('wrap').composite !== false,
    startController: () => notifyOnError(model.startController())
  };
}

/** Let a log read from the list of jobs why its job failed. */
export function createLogFailure(
  model: IJobsModel,
  id: string,
  trans: TranslationBundle
): ILogFailure {
  const read: ILogFailure['read'] = () => {
    const job = model.state.jobs.get(id);
    return job ? describeJobFailure(job, null, trans) : null;
  };
  return { read, changed: model.changed };
}
