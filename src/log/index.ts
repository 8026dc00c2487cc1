// Logs of jobs, for whoever shows one.

export type { ILogLooks } from './looks';
export { logLooks } from './looks';
export type { ILogOptions } from './view';
export { LogView } from './view';
export type { ILogSource } from './source';
export { logOf } from './source';
