// The charts that are open, for commands; these are registered before the code of the charts is loaded.

/** What a command can do with charts. */
export interface IChartsHandle {
  readonly isVisible: boolean;
  readonly isPaused: boolean;
  pause(): void;
  resume(): void;
  /** Show a part of the time, in seconds since the epoch; null shows all of it. */
  zoom(part: { from: number; to: number } | null): void;
}

/** All charts that are attached to the page. */
export const openCharts = new Set<IChartsHandle>();

/** Return the charts that are visible. */
export function visibleCharts(): IChartsHandle[] {
  return [...openCharts].filter(charts => charts.isVisible);
}
