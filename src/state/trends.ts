// What running jobs used lately, as far as this page heard it: the small bars beside the newest figure.

import type { JobSummary } from '../_types';

/** Figures that are kept of each: as many bars as fit beside a number. */
export const TREND_LENGTH = 8;

/** The newest last; percent, where a core or a GPU that is fully used is 100. */
export interface ITrend {
  readonly cpu: readonly number[];
  readonly gpu: readonly number[];
}

/** By the ids of jobs that run. */
export type Trends = ReadonlyMap<string, ITrend>;

const NONE: ITrend = { cpu: [], gpu: [] };

/** The trends of the jobs that run, after news of some of them. */
export function updateTrends(before: Trends, news: readonly JobSummary[], ended: string[]): Trends {
  const trends = new Map(before);
  for (const { id, usage } of news) {
    const trend = trends.get(id) ?? NONE;
    const last = [trend.cpu, trend.gpu].map(figures => figures[figures.length - 1] ?? null);
    const now = [usage?.cpu_percent ?? null, usage?.gpu_percent ?? null];
    // Progress comes with the figures that were there before.
    if (now.some((figure, index) => figure !== last[index])) {
      trends.set(id, { cpu: grown(trend.cpu, now[0]), gpu: grown(trend.gpu, now[1]) });
    }
  }
  ended.forEach(id => trends.delete(id));
  return trends;
}

function grown(figures: readonly number[], next: number | null): readonly number[] {
  return next === null ? figures : [...figures, next].slice(-TREND_LENGTH);
}
