// What a view shows of a history now: made once for all its parts, and again when something of it has changed.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { AlignedData } from './downsample';
import { alignSeries, downsample } from './downsample';
import type { History, ITimeSeries } from './history';
import type { IPanel } from './panels';
import { buildPanels } from './panels';
import type { IVisibleRange } from './summary';
import { summarizePanels } from './summary';

/** What a person chose to see. */
export interface IChartsSelection {
  /** Seconds since the epoch; null is all the time. */
  zoom: { from: number; to: number } | null;
  /** The host whose lines are shown; empty is all of them. */
  host: string;
  /** Keys of the lines that are not drawn. */
  hidden: ReadonlySet<string>;
}

export interface IPanelDrawing {
  readonly panel: IPanel;
  /** In seconds since the beginning. */
  readonly table: AlignedData;
  /** Style index of each line that is drawn, in the order of the table's columns. */
  readonly turns: number[];
}

export interface IChartsViewModel {
  readonly range: IVisibleRange;
  readonly drawings: IPanelDrawing[];
  readonly summary: string;
  readonly hosts: string[];
}

/** Pieces of the time in which at most five points of a line are drawn: about the pixels of a chart. */
export const TIME_BUCKETS = 800;

/** Hosts of which all lines are shown unless somebody asks for them. */
const MANY_HOSTS = 8;

/** Seconds around a moment that stands alone. */
const ALONE = 0.5;

export function buildViewModel(
  history: History,
  choice: IChartsSelection,
  trans: TranslationBundle
): IChartsViewModel | null {
  const { span } = history;
  if (span === null) {
    return null;
  }
  const hosts = [...new Set(history.lines.map(line => line.host))];
  const lines = history.lines.filter(line => choice.host === '' || line.host === choice.host);
  const range = visibleRange(span, choice.zoom);
  const panels = buildPanels(lines, trans);
  return {
    range,
    hosts,
    summary: summarizePanels(panels, range, trans),
    drawings: panels.map(panel => buildDrawing(panel, range, choice.hidden))
  };
}

/** The host that is shown at first: all of a few, the leader of many. */
export function defaultHost(hosts: readonly string[]): string {
  return hosts.length > MANY_HOSTS ? hosts[0] : '';
}

function visibleRange(
  span: { begin: number; end: number },
  zoom: IChartsSelection['zoom']
): IVisibleRange {
  const { begin, end } = span;
  return { begin, from: zoom?.from ?? begin, to: zoom?.to ?? end, isWhole: zoom === null };
}

function buildDrawing(
  panel: IPanel,
  range: IVisibleRange,
  hidden: ReadonlySet<string>
): IPanelDrawing {
  const shown = panel.lines
    .map(({ line }, turn) => ({ line, turn }))
    .filter(({ line }) => !hidden.has(line.key));
  const table = alignSeries(
    shown.map(({ line }) => downsample(line, range.from, range.to, TIME_BUCKETS))
  );
  table[0] = table[0].map(at => at - range.begin);
  return { panel, table, turns: shown.map(({ turn }) => turn) };
}

/** The ends of the time axis, in seconds since the beginning; a moment that stands alone has room around it. */
export function axisRange({ from, to, begin }: IVisibleRange): { from: number; to: number } {
  const room = to > from ? 0 : ALONE;
  return { from: from - begin - room, to: to - begin + room };
}

/** Some moments of the time that is shown, for a table that can be read. */
export function sampleTimes(
  lines: readonly ITimeSeries[],
  range: IVisibleRange,
  most: number
): number[] {
  // The lines of a host share their moments.
  const clocks = [...new Set(lines.map(line => line.at))];
  const within = clocks.flatMap(clock => clock.filter(at => at >= range.from && at <= range.to));
  const all = [...new Set(within)].sort((one, other) => one - other);
  const step = Math.max(1, (all.length - 1) / (most - 1));
  const count = all.length > most ? most : all.length;
  return Array.from({ length: count }, (_, i) => all[Math.round(i * step)]);
}
