// The charts that are open, for commands, which are there before the charts are loaded.

/** What a command can do with charts. */
export interface IChartsHandle {
  readonly isVisible: boolean;
  readonly isPaused: boolean;
  pause(): void;
  resume(): void;
  /** Show a part of the time, in seconds since the epoch; null shows all of it. */
  zoom(part: { from: number; to: number } | null): void;
}

/** Whoever is attached is in it. */
export const openCharts = new Set<IChartsHandle>();

/** Those that a person sees. */
export function visibleCharts(): IChartsHandle[] {
  return [...openCharts].filter(charts => charts.isVisible);
}
