// Logs of jobs, for whoever shows one.

export type { ILogDisplayOptions } from './options';
export { loadDisplayOptions } from './options';
export type { ILogOptions } from './logView';
export { LogView } from './logView';
export type { ILogSource } from './logSource';
export { createLogSource } from './logSource';
