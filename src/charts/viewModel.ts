// What a view shows of a history now: made once for all its parts, and again when something of it has changed.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Table } from './downsample';
import { tableOf, thinned } from './downsample';
import type { History, ILine } from './history';
import type { IPanel } from './panels';
import { panelsOf } from './panels';
import type { ISight } from './summary';
import { summaryOf } from './summary';

/** What a person chose to see. */
export interface IChoice {
  /** Seconds since the epoch; null is all the time. */
  zoom: { from: number; to: number } | null;
  /** The host whose lines are shown; empty is all of them. */
  host: string;
  /** Keys of the lines that are not drawn. */
  hidden: ReadonlySet<string>;
}

export interface IDrawing {
  readonly panel: IPanel;
  /** In seconds since the beginning. */
  readonly table: Table;
  /** The looks of the lines that are drawn, and the lines, in the order of the table's columns. */
  readonly turns: number[];
}

export interface IScene {
  readonly sight: ISight;
  readonly drawings: IDrawing[];
  readonly summary: string;
  readonly hosts: string[];
}

/** Pieces of the time in which at most five points of a line are drawn: about the pixels of a chart. */
export const PIECES = 800;

/** Hosts of which all lines are shown unless somebody asks for them. */
const MANY_HOSTS = 8;

/** Seconds around a moment that stands alone. */
const ALONE = 0.5;

export function sceneOf(
  history: History,
  choice: IChoice,
  trans: TranslationBundle
): IScene | null {
  const { span } = history;
  if (span === null) {
    return null;
  }
  const hosts = [...new Set(history.lines.map(line => line.host))];
  const lines = history.lines.filter(line => choice.host === '' || line.host === choice.host);
  const sight = sightOf(span, choice.zoom);
  const panels = panelsOf(lines, trans);
  return {
    sight,
    hosts,
    summary: summaryOf(panels, sight, trans),
    drawings: panels.map(panel => drawingOf(panel, sight, choice.hidden))
  };
}

/** The host that is shown at first: all of a few, the leader of many. */
export function firstHost(hosts: readonly string[]): string {
  return hosts.length > MANY_HOSTS ? hosts[0] : '';
}

function sightOf(span: { begin: number; end: number }, zoom: IChoice['zoom']): ISight {
  const { begin, end } = span;
  return { begin, from: zoom?.from ?? begin, to: zoom?.to ?? end, isWhole: zoom === null };
}

function drawingOf(panel: IPanel, sight: ISight, hidden: ReadonlySet<string>): IDrawing {
  const shown = panel.lines
    .map(({ line }, turn) => ({ line, turn }))
    .filter(({ line }) => !hidden.has(line.key));
  const table = tableOf(shown.map(({ line }) => thinned(line, sight.from, sight.to, PIECES)));
  table[0] = table[0].map(at => at - sight.begin);
  return { panel, table, turns: shown.map(({ turn }) => turn) };
}

/** The ends of the time axis, in seconds since the beginning; a moment that stands alone has room around it. */
export function axisOf({ from, to, begin }: ISight): { from: number; to: number } {
  const room = to > from ? 0 : ALONE;
  return { from: from - begin - room, to: to - begin + room };
}

/** Some moments of the time that is shown, for a table that can be read. */
export function momentsOf(lines: readonly ILine[], sight: ISight, most: number): number[] {
  // The lines of a host share their moments.
  const clocks = [...new Set(lines.map(line => line.at))];
  const within = clocks.flatMap(clock => clock.filter(at => at >= sight.from && at <= sight.to));
  const all = [...new Set(within)].sort((one, other) => one - other);
  const step = Math.max(1, (all.length - 1) / (most - 1));
  const count = all.length > most ? most : all.length;
  return Array.from({ length: count }, (_, i) => all[Math.round(i * step)]);
}
