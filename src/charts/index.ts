// The charts of a job: load this folder with `import()`.

export { ChartsView } from './chartsView';
export type { IChartsOptions } from './chartsView';
export { createHistorySource } from './historySource';
export type { IHistoryQuery, IHistorySource } from './historySource';
