// The names of the commands, for whoever executes one without loading what it does.

export namespace CommandIDs {
  export const refresh = 'jupyter-smx:refresh';
  export const stopJob = 'jupyter-smx:stop-job';
  export const deleteJob = 'jupyter-smx:delete-job';
  export const clearFinished = 'jupyter-smx:clear-finished';
  export const openLog = 'jupyter-smx:open-log';
  export const openJob = 'jupyter-smx:open-job';
  export const compareJobs = 'jupyter-smx:compare-jobs';
  export const extendPool = 'jupyter-smx:extend-pool';
  export const releasePool = 'jupyter-smx:release-pool';
  export const wake = 'jupyter-smx:start-controller';
  export const openPanel = 'jupyter-smx:open-panel';
}
