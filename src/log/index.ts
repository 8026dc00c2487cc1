// Logs of jobs, for whoever shows one.

export type { ILogLooks } from './options';
export { logLooks } from './options';
export type { ILogOptions } from './logView';
export { LogView } from './logView';
export type { ILogSource } from './logSource';
export { logOf } from './logSource';
