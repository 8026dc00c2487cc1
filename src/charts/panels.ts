// Which charts to draw for the known series: one for each kind of figure, and one for metrics that belong together.

import type { TranslationBundle } from '@jupyterlab/translation';

import { plainText } from '../format/plainText';
import type { ITimeSeries, SeriesKind } from './history';
import type { Unit } from './units';

/** One chart: lines in the same unit. */
export interface IPanel {
  readonly key: string;
  readonly title: string;
  readonly unit: Unit;
  readonly lines: readonly ILabelledSeries[];
  /** Whether the axis begins at zero, as it does for resource use. */
  readonly isFromZero: boolean;
  /** The upper limit on each host; null if it is unknown or hosts differ. */
  readonly most: number | null;
}

export interface ILabelledSeries {
  readonly label: string;
  readonly line: ITimeSeries;
}

interface IKindOfPanel {
  key: string;
  kinds: SeriesKind[];
  unit: Unit;
}

const PANELS: IKindOfPanel[] = [
  { key: 'cpu', kinds: ['cpu'], unit: 'percent' },
  { key: 'gpu', kinds: ['gpu'], unit: 'percent' },
  { key: 'memory', kinds: ['memory'], unit: 'bytes' },
  { key: 'gpu-memory', kinds: ['gpu-memory'], unit: 'bytes' },
  { key: 'transfers', kinds: ['read', 'write'], unit: 'rate' },
  { key: 'network', kinds: ['receive', 'send'], unit: 'rate' },
  { key: 'disk', kinds: ['disk'], unit: 'bytes' }
];

/** The prefix of a metric's name by which libraries say on which data it was measured. */
const SPLIT = /^(train|training|val|valid|validation|dev|eval|test)[_\-/. ]+(?=.)/i;

/** Characters of the name of a metric. */
export const METRIC_LIMIT = 80;

/** Return the charts of some lines: metrics first, then resource use. A figure without data has no chart. */
export function buildPanels(lines: readonly ITimeSeries[], trans: TranslationBundle): IPanel[] {
  const used = PANELS.map(({ key, kinds, unit }) => {
    const mine = lines.filter(line => kinds.includes(line.kind) && isKnown(line));
    return {
      key,
      unit,
      title: titleOf(key, trans),
      isFromZero: true,
      most: mostOf(mine),
      lines: labelled(mine, line => labelOf(line, trans), trans)
    };
  });
  return [...metricPanels(lines, trans), ...used].filter(panel => panel.lines.length > 0);
}

/** Label each line by what distinguishes it from the others of its chart: its host, its name, or both. */
function labelled(
  lines: readonly ITimeSeries[],
  whatOf: (line: ITimeSeries) => string,
  trans: TranslationBundle
): ILabelledSeries[] {
  const hosts = new Set(lines.map(line => line.host)).size;
  const whats = new Set(lines.map(whatOf)).size;
  return lines.map(line => {
    const what = whatOf(line);
    const both = whats > 1 ? trans.__('%1, %2', line.host, what) : line.host;
    return { line, label: hosts > 1 ? both : what };
  });
}

function metricPanels(lines: readonly ITimeSeries[], trans: TranslationBundle): IPanel[] {
  const groups = new Map<string, ITimeSeries[]>();
  for (const line of lines.filter(one => one.kind === 'metric')) {
    const base = line.name.replace(SPLIT, '');
    groups.set(base, [...(groups.get(base) ?? []), line]);
  }
  return [...groups].map(([base, group]) => {
    const names = new Set(group.map(line => line.name));
    return {
      key: `metric ${base}`,
      title: plainText(names.size > 1 ? base : group[0].name, METRIC_LIMIT),
      unit: 'number',
      isFromZero: false,
      most: null,
      lines: labelled(group, line => plainText(line.name, METRIC_LIMIT), trans)
    };
  });
}

function mostOf(lines: readonly ITimeSeries[]): number | null {
  const found = new Set(lines.map(line => line.most));
  return found.size === 1 ? [...found][0] : null;
}

function isKnown(line: ITimeSeries): boolean {
  return line.values.some(value => value !== null);
}

function titleOf(key: string, trans: TranslationBundle): string {
  switch (key) {
    case 'cpu':
      return trans.__('CPU');
    case 'gpu':
      return trans.__('GPU');
    case 'memory':
      return trans.__('Memory');
    case 'gpu-memory':
      return trans.__('GPU memory');
    case 'transfers':
      return trans.__('Disk I/O');
    case 'network':
      return trans.__('Host network');
    default:
      return trans.__('Host disk usage');
  }
}

/** Return the label of a line among the others of its chart. */
function labelOf({ kind, name }: ITimeSeries, trans: TranslationBundle): string {
  switch (kind) {
    case 'cpu':
      return trans.__('CPU');
    case 'memory':
      return trans.__('memory');
    case 'read':
      return trans.__('read');
    case 'write':
      return trans.__('written');
    case 'receive':
      return trans.__('received');
    case 'send':
      return trans.__('sent');
    case 'disk':
      return trans.__('in use');
    default:
      return trans.__('GPU %1', name);
  }
}
