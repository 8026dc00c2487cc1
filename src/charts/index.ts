// The charts of a job, for whoever shows them: load this with `import()`.

export { ChartsView } from './chartsView';
export type { IChartsOptions } from './chartsView';
export { historyOf } from './historySource';
export type { IHistoryAsk, IHistorySource } from './historySource';
