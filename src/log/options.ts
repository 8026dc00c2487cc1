// What a log in any view is given beside its job: how it is shown at first, and what starts the controller from it.

import type { ISettingRegistry } from '@jupyterlab/settingregistry';

import { LOG_PLUGIN } from '../commands/commandIds';
import { told } from '../commands/prompts';
import type { IJobsModel } from '../tokens';

export interface ILogLooks {
  /** Start what answers, where nothing does because nothing was to do; a failure is told there. */
  wake?: () => Promise<void>;
  /** Whether long lines are broken at first; they are. */
  isWrapped?: boolean;
}

/** By the settings, where there are some. */
export async function logLooks(
  model: IJobsModel,
  registry: ISettingRegistry | null
): Promise<ILogLooks> {
  const settings = await registry?.load(LOG_PLUGIN).catch(() => null);
  return {
    isWrapped: settings?.get('wrap').composite !== false,
    wake: () => told(model.wake())
  };
}
