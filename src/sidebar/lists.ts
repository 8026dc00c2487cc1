// The lists of the panel, which the page loads when it is restored, or before that with a panel that is shown.

export { JobList } from './jobList';
export { PoolList } from './poolList';
