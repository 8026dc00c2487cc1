// The charts of a job, for whoever shows them: load this with `import()`.

export { ChartsView } from './chartsView';
export type { IChartsOptions } from './chartsView';
export { createHistorySource } from './historySource';
export type { IHistoryQuery, IHistorySource } from './historySource';
