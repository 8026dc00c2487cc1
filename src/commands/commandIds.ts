// Ids of the commands and schemas of their arguments, without the code that executes them.

import type { ReadonlyJSONObject } from '@lumino/coreutils';

export namespace CommandIDs {
  export const refresh = 'jupyter-smx:refresh';
  export const stopJob = 'jupyter-smx:stop-job';
  export const interruptJob = 'jupyter-smx:interrupt-job';
  export const rerunJob = 'jupyter-smx:rerun-job';
  export const deleteJob = 'jupyter-smx:delete-job';
  export const stopArray = 'jupyter-smx:stop-array';
  export const rerunFailedTasks = 'jupyter-smx:rerun-failed-tasks';
  export const deleteArray = 'jupyter-smx:delete-array';
  export const clearFinished = 'jupyter-smx:clear-finished';
  export const tellOnDesktop = 'jupyter-smx:tell-on-desktop';
  export const openLog = 'jupyter-smx:open-log';
  export const openCharts = 'jupyter-smx:open-charts';
  export const pauseCharts = 'jupyter-smx:pause-charts';
  export const resetCharts = 'jupyter-smx:reset-charts-zoom';
  export const openJob = 'jupyter-smx:open-job';
  export const compareJobs = 'jupyter-smx:compare-jobs';
  export const openShell = 'jupyter-smx:open-shell';
  export const openPoolShell = 'jupyter-smx:open-pool-shell';
  export const extendPool = 'jupyter-smx:extend-pool';
  export const releasePool = 'jupyter-smx:release-pool';
  export const wake = 'jupyter-smx:start-controller';
  export const openPanel = 'jupyter-smx:open-panel';
}

/** What one does with the log in front. */
export namespace LogCommandIDs {
  export const find = 'jupyter-smx:log-find';
  export const findNext = 'jupyter-smx:log-find-next';
  export const findPrevious = 'jupyter-smx:log-find-previous';
  export const toBegin = 'jupyter-smx:log-go-to-beginning';
  export const toEnd = 'jupyter-smx:log-go-to-end';
  export const follow = 'jupyter-smx:log-follow';
  export const wrap = 'jupyter-smx:log-wrap';
  export const download = 'jupyter-smx:log-download';
}

/** The plugin whose settings say how logs are shown, in every view. */
export const LOG_PLUGIN = 'jupyter-smx:log';

/** The arguments of a command that takes none. */
export const NO_ARGS: ReadonlyJSONObject = { type: 'object', properties: {} };

export const JOB_PROPERTIES: ReadonlyJSONObject = {
  id: { type: 'string', description: 'ID of the job; if omitted, a dialog asks for it' },
  name: { type: 'string', description: 'Name of the job, if the panel does not list it' }
};

/** The arguments of a command that takes a job. */
export const JOB_ARGS: ReadonlyJSONObject = { type: 'object', properties: JOB_PROPERTIES };

/** The argument of a command that acts on what a list shows. */
export const FILTER_PROPERTY: ReadonlyJSONObject = {
  filter: { type: 'string', description: 'Words that each listed item must contain' }
};

/** The arguments of a command that takes the id of one thing, and maybe others. */
export function idArgs(description: string, others: ReadonlyJSONObject = {}): ReadonlyJSONObject {
  return {
    type: 'object',
    properties: { id: { type: 'string', description }, ...others }
  };
}
