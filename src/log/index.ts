// The log of a job as a widget, and what it needs: the public names of this folder.

export type { ILogDisplayOptions } from './options';
export { createLogFailure, loadDisplayOptions } from './options';
export type { ILogOptions } from './logView';
export { LogView } from './logView';
export type { ILogSource } from './logSource';
export { createLogSource } from './logSource';
