// What charts show, in one sentence for screen readers.

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatDuration, formatSpokenDuration } from '../format/numbers';
import { plainText } from '../format/plainText';
import type { ITimeSeries } from './history';
import type { IPanel } from './panels';
import { METRIC_LIMIT } from './panels';
import type { IStatistics } from './statistics';
import { computeStatistics } from './statistics';
import { formatTimeOffset, formatValue } from './units';

/** The range of time that is shown, in seconds since the epoch, and whether it is the whole run. */
export interface IVisibleRange {
  from: number;
  to: number;
  begin: number;
  isWhole: boolean;
}

/** Metrics that are described one by one. */
const TOLD = 4;

/** Relative change below which a metric counts as unchanged. */
const STILL = 1e-3;

/** `Over 3 minutes: loss fell from 0.9 to 0.2; CPU 180 % on average, 212 % at most; memory 1.2 GiB at most.` */
export function summarizePanels(
  panels: readonly IPanel[],
  range: IVisibleRange,
  trans: TranslationBundle
): string {
  const used = panels.filter(panel => panel.unit !== 'number');
  const metrics = panels.filter(panel => panel.unit === 'number');
  const hosts = new Set(used.flatMap(panel => panel.lines.map(({ line }) => line.host))).size;
  const parts = [
    ...metricParts(metrics, range, trans),
    ...used.map(panel => usedPart(panel, range, trans))
  ].filter(Boolean);
  if (parts.length === 0) {
    return trans.__('No data in this time range.');
  }
  const all = parts.join('; ');
  const when = whenWords(range, trans);
  return hosts > 1
    ? trans.__('%1, on each of %2 hosts: %3.', when, hosts, all)
    : trans.__('%1: %2.', when, all);
}

/** Describe one chart; the accessible name of its picture. */
export function describePanel(
  panel: IPanel,
  range: IVisibleRange,
  trans: TranslationBundle
): string {
  const words =
    panel.unit === 'number'
      ? metricParts([panel], range, trans).join('; ')
      : usedPart(panel, range, trans);
  return words ? trans.__('Chart of %1: %2', panel.title, words) : panel.title;
}

function whenWords({ from, to, begin, isWhole }: IVisibleRange, trans: TranslationBundle): string {
  return isWhole
    ? overWords(to - from, trans)
    : trans.__(
        'From %1 to %2',
        formatTimeOffset(from - begin, trans),
        formatTimeOffset(to - begin, trans)
      );
}

function overWords(seconds: number, trans: TranslationBundle): string {
  if (seconds === 0) {
    return trans.__('At one point in time');
  }
  return trans.__(
    'Over %1',
    seconds < 1 ? formatDuration(seconds, trans) : formatSpokenDuration(seconds, trans)
  );
}

function usedPart(panel: IPanel, range: IVisibleRange, trans: TranslationBundle): string {
  const told = panel.lines.map(({ line }) => ({
    line,
    found: computeStatistics(line, range.from, range.to)
  }));
  const found = told.map(one => one.found).filter((one): one is IStatistics => one !== null);
  if (found.length === 0) {
    return '';
  }
  const most = formatValue(Math.max(...found.map(one => one.highest)), panel.unit, trans);
  const mean = formatValue(meanOf(found), panel.unit, trans);
  const meanOfKind = (kind: string): string =>
    formatValue(
      meanOf(told.flatMap(one => (one.line.kind === kind && one.found) || [])),
      panel.unit,
      trans
    );
  switch (panel.key) {
    case 'cpu':
      return trans.__('CPU average %1, peak %2', mean, most);
    case 'gpu':
      return trans.__('GPU average %1, peak %2', mean, most);
    case 'memory':
      return trans.__('peak memory %1', most);
    case 'gpu-memory':
      return trans.__('peak GPU memory %1', most);
    case 'transfers':
      return trans.__('%1 read and %2 written on average', meanOfKind('read'), meanOfKind('write'));
    case 'network':
      return trans.__(
        '%1 received and %2 sent on average',
        meanOfKind('receive'),
        meanOfKind('send')
      );
    default:
      return trans.__('peak disk usage %1', most);
  }
}

function meanOf(found: readonly IStatistics[]): number {
  return found.reduce((sum, one) => sum + one.mean, 0) / Math.max(1, found.length);
}

function metricParts(
  panels: readonly IPanel[],
  { from, to }: IVisibleRange,
  trans: TranslationBundle
): string[] {
  // The first host that printed the metric represents all hosts.
  const leaders = new Map<string, ITimeSeries>();
  for (const { line } of panels.flatMap(panel => panel.lines)) {
    leaders.set(line.name, leaders.get(line.name) ?? line);
  }
  const told: string[] = [];
  let untold = 0;
  for (const [whole, line] of leaders) {
    const name = plainText(whole, METRIC_LIMIT);
    const found = computeStatistics(line, from, to);
    if (told.length >= TOLD) {
      untold++;
    } else if (found !== null) {
      told.push(moved(name, found, trans));
    } else if (line.values.length > 0 && line.values.every(value => value === null)) {
      told.push(trans.__('%1 was never a finite number', name));
    }
  }
  return untold > 0 ? [...told, trans._n('%1 more metric', '%1 more metrics', untold)] : told;
}

function moved(name: string, found: IStatistics, trans: TranslationBundle): string {
  const [first, newest] = [found.first, found.newest].map(one => formatValue(one, 'number', trans));
  const step = found.newest - found.first;
  if (found.count - found.unknown < 2) {
    return trans.__('%1 is %2', name, newest);
  }
  if (Math.abs(step) <= STILL * Math.max(Math.abs(found.first), Math.abs(found.newest))) {
    return trans.__('%1 stayed at %2', name, newest);
  }
  return step < 0
    ? trans.__('%1 fell from %2 to %3', name, first, newest)
    : trans.__('%1 rose from %2 to %3', name, first, newest);
}
