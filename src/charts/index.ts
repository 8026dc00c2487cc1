// The charts of a job, for whoever shows them: load this with `import()`.

export { ChartsView } from './view';
export type { IChartsOptions } from './view';
export { historyOf } from './source';
export type { IHistoryAsk, IHistorySource } from './source';
