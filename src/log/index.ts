// Logs of jobs, for whoever shows one.

export type { ILogOptions } from './view';
export { LogView } from './view';
export type { ILogSource } from './source';
export { logOf } from './source';
