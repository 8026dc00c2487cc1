// Made by `make types` from jupyter_smx/model/http_routes.py: change it there.

/**
 * Method and path of each route of the Jupyter server, by its action; at `postPath`, POST does the same as the method.
 */
export const ROUTES = {
  submit_job: { method: 'POST', path: 'jobs' },
  list_jobs: { method: 'GET', path: 'jobs' },
  get_job: { method: 'GET', path: 'jobs/{ref}' },
  delete_job: { method: 'DELETE', path: 'jobs/{ref}', postPath: 'jobs/{ref}/delete' },
  stop_job: { method: 'POST', path: 'jobs/{ref}/stop' },
  interrupt_job: { method: 'POST', path: 'jobs/{ref}/interrupt' },
  rerun_job: { method: 'POST', path: 'jobs/{ref}/rerun' },
  get_job_shell: { method: 'GET', path: 'jobs/{ref}/shell' },
  read_log: { method: 'GET', path: 'jobs/{ref}/logs' },
  search_log: { method: 'GET', path: 'jobs/{ref}/logs/search' },
  download_log: { method: 'GET', path: 'jobs/{ref}/logs/whole' },
  get_metrics: { method: 'GET', path: 'jobs/{ref}/metrics' },
  get_usage: { method: 'GET', path: 'jobs/{ref}/usage' },
  get_advice: { method: 'GET', path: 'jobs/{ref}/advice' },
  compare_jobs: { method: 'GET', path: 'jobs/{ref}/diff' },
  download_artifact: { method: 'GET', path: 'jobs/{ref}/artifacts/{name:path}' },
  list_arrays: { method: 'GET', path: 'arrays' },
  get_array: { method: 'GET', path: 'arrays/{ref}' },
  stop_array: { method: 'POST', path: 'arrays/{ref}/stop' },
  list_pools: { method: 'GET', path: 'pools' },
  extend_pool: { method: 'PATCH', path: 'pools/{ref}', postPath: 'pools/{ref}/extend' },
  release_pool: { method: 'DELETE', path: 'pools/{ref}', postPath: 'pools/{ref}/release' },
  get_pool_shell: { method: 'GET', path: 'pools/{ref}/shell' },
  list_changes: { method: 'GET', path: 'changes' },
  diagnose: { method: 'GET', path: 'doctor' },
  get_controller_state: { method: 'GET', path: 'controller' },
  start_controller: { method: 'POST', path: 'controller' },
  locate_job_files: { method: 'GET', path: 'jobs/{ref}/places' }
} as const;
