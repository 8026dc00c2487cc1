import { nullTranslator } from '@jupyterlab/translation';

import type { HostUsage, MetricSeries } from '../../_types';
import { alignSeries, downsample, lastKnownValue, valueAt } from '../../charts/downsample';
import { History } from '../../charts/history';
import { buildPanels } from '../../charts/panels';
import { computeStatistics } from '../../charts/statistics';
import { seriesColour, seriesDash } from '../../charts/style';
import {
  formatTimeOffset,
  formatTimeTicks,
  formatValue,
  formatValueTicks
} from '../../charts/units';
import {
  axisRange,
  buildViewModel,
  defaultHost,
  sampleTimes,
  TIME_BUCKETS
} from '../../charts/viewModel';
import { clampRange, rangeForKey } from '../../charts/zoom';
import { host, metrics, series, usage } from '../fixtures/history';

const trans = nullTranslator.load('jupyter_smx');

function historyOf(hosts: HostUsage[], all: MetricSeries[] = []): History {
  const history = new History();
  history.addUsage(usage(hosts), 0);
  history.addMetrics(metrics(all), 0);
  return history;
}

const whole = { zoom: null, host: '', hidden: new Set<string>() };
const line = (history: History, kind: string, name = ''): History['lines'][number] =>
  history.lines.filter(one => one.kind === kind && one.name === name)[0];

describe('a history', () => {
  it('grows by what is new, and asks only for what it does not have', () => {
    const history = historyOf([host('algo-1', [10, 11], { cpu_percent: [null, 50] })]);
    expect(history.usageSince).toBe(11);
    expect(history.addUsage(usage([host('algo-1', [11, 12], { cpu_percent: [7, 60] })]), 11)).toBe(
      true
    );
    expect(line(history, 'cpu')).toMatchObject({ at: [10, 11, 12], values: [null, 50, 60] });
    expect(history.addUsage(usage([host('algo-1', [])]), 12)).toBe(false);
  });

  it('asks from the slower of two clocks on, but not for ever from one that stands still', () => {
    const history = historyOf([host('algo-1', [10, 100]), host('algo-2', [10, 95])]);
    expect(history.usageSince).toBe(95);
    history.addUsage(usage([host('algo-1', [100, 101, 300])]), 95);
    expect(history.usageSince).toBe(240);
    expect(line(history, 'cpu').at).toEqual([10, 100, 101, 300]);
  });

  it('puts everything in the place of what it had where everything was asked for', () => {
    const history = historyOf([host('algo-1', [1, 2, 3])], [series('loss', [1, 2], [3, 2])]);
    history.addUsage(usage([host('algo-1', [1, 3], { cpu_percent: [1, 3] })]), 0);
    history.addMetrics(metrics([series('loss', [1], [3])]), 0);
    expect(line(history, 'cpu').values).toEqual([1, 3]);
    expect(line(history, 'metric', 'loss').values).toEqual([3]);
  });

  it('has a gap where something is no number, and before a GPU was found', () => {
    const history = historyOf([host('algo-1', [1, 2])], [series('loss', [1, 2], [1, null])]);
    const gpu = { id: 'a', name: 'H100', memory_total_bytes: 80, percent: [9], memory_bytes: [7] };
    history.addUsage(usage([host('algo-1', [3], { gpus: [gpu], cpu_percent: [Infinity] })]), 2);
    expect(line(history, 'gpu', '0')).toMatchObject({ at: [1, 2, 3], values: [null, null, 9] });
    expect(line(history, 'cpu').values).toEqual([null, null, null]);
    expect(line(history, 'metric', 'loss').values).toEqual([1, null]);
  });

  it('reads a metric anew before it has more points than any screen', () => {
    const at = Array.from({ length: 10_001 }, (_, i) => i + 1);
    const history = historyOf([], [series('loss', at, at)]);
    expect(history.metricsSince).toBe(0);
  });
});

describe('points for a screen', () => {
  const at = Array.from({ length: 100_000 }, (_, i) => i);
  const values = at.map(i => (i === 71_234 ? 1e6 : i === 55 ? -1e6 : i % 10));

  it('are few, in order, and have every peak', () => {
    const few = downsample({ at, values }, 0, 99_999, TIME_BUCKETS);
    expect(few.at.length).toBeLessThanOrEqual(5 * TIME_BUCKETS);
    expect(few.values).toContain(1e6);
    expect(few.values).toContain(-1e6);
    expect([few.at[0], few.at[few.at.length - 1]]).toEqual([0, 99_999]);
    expect([...few.at].sort((a, b) => a - b)).toEqual(few.at);
  });

  it('keep a gap', () => {
    const holed = values.map((value, i) => (i === 4_242 ? null : value));
    expect(downsample({ at, values: holed }, 0, 99_999, TIME_BUCKETS).values).toContain(null);
  });

  it('are all there where few are shown, with one on either side of what is shown', () => {
    expect(downsample({ at, values }, 10.5, 13, TIME_BUCKETS).at).toEqual([10, 11, 12, 13, 14]);
    expect(downsample({ at: [5], values: [1] }, 5, 5, TIME_BUCKETS)).toEqual({
      at: [5],
      values: [1]
    });
    expect(downsample({ at: [], values: [] }, 0, 1, TIME_BUCKETS).at).toEqual([]);
    const together = { at: [5, 5, 5], values: [1, 2, 3] };
    expect(downsample(together, 5, 5, TIME_BUCKETS)).toEqual(together);
  });

  it('are thinned where all came at nearly one moment', () => {
    const same = at.map(() => 7);
    expect(downsample({ at: same, values }, 7, 7, TIME_BUCKETS).at.length).toBeLessThanOrEqual(
      5 * TIME_BUCKETS
    );
  });

  it('of lines with moments of their own stand in one table, and equal moments are kept', () => {
    const one = { at: [1, 2, 2], values: [1, 2, 3] };
    const other = { at: [2, 4], values: [null, 5] };
    expect(alignSeries([one, other])).toEqual([
      [1, 2, 2, 4],
      [1, 2, 3, undefined],
      [undefined, null, undefined, 5]
    ]);
    expect(alignSeries([])).toEqual([[]]);
  });

  it('are told for a moment as they were then', () => {
    const points = { at: [1, 2, 3], values: [1, 2, null] };
    expect([0.5, 2.9, 3].map(moment => valueAt(points, moment))).toEqual([null, 2, null]);
    expect([0.5, 3].map(moment => lastKnownValue(points, moment))).toEqual([null, 2]);
  });
});

describe('figures', () => {
  it('weigh what lasted longer, but a metric once for each time that it was printed', () => {
    const at = [1, 2, 12];
    const history = historyOf(
      [host('algo-1', at, { cpu_percent: [null, 100, 10] })],
      [series('loss', at, [3, null, 1])]
    );
    expect(computeStatistics(line(history, 'cpu'), 1, 12)).toMatchObject({
      mean: 200 / 11,
      lowest: 10,
      highest: 100,
      first: 100,
      newest: 10,
      count: 3,
      unknown: 1
    });
    expect(computeStatistics(line(history, 'metric', 'loss'), 1, 12)?.mean).toBe(2);
    expect(computeStatistics(line(history, 'cpu'), 2, 2)).toMatchObject({ count: 1, mean: 100 });
    expect(computeStatistics(line(history, 'memory'), 1, 12)).toBeNull();
  });
});

describe('panels', () => {
  const known = { cpu_percent: [1], cpus: 2 };

  it('are there for what is known only, metrics first, and those of one kind in one', () => {
    const panels = buildPanels(
      historyOf(
        [host('algo-1', [1], known)],
        [series('loss', [1], [1]), series('acc', [1], [1]), series('val_loss', [1], [2])]
      ).lines,
      trans
    );
    expect(panels.map(panel => panel.title)).toEqual(['loss', 'acc', 'CPU']);
    expect(panels[0].lines.map(({ label }) => label)).toEqual(['loss', 'val_loss']);
    expect(panels[2].most).toBe(200);
  });

  it('name the hosts where there are several', () => {
    const hosts = [host('algo-1', [1], known), host('algo-2', [1], { ...known, cpus: 4 })];
    const [panel] = buildPanels(historyOf(hosts).lines, trans);
    expect(panel.lines.map(({ label }) => label)).toEqual(['algo-1', 'algo-2']);
    expect(panel.most).toBeNull();
    expect(defaultHost(['algo-1', 'algo-2'])).toBe('');
    expect(defaultHost(Array.from({ length: 9 }, (_, i) => `algo-${i + 1}`))).toBe('algo-1');
  });

  it('have a line of their own look for each line', () => {
    const looks = Array.from(
      { length: 36 },
      (_, i) => `${seriesColour(i)} ${seriesDash(i).join()}`
    );
    expect(new Set(looks).size).toBe(36);
    expect(new Set(Array.from({ length: 6 }, (_, i) => seriesDash(i).join())).size).toBe(6);
    expect(seriesColour(0)).toMatch(/^var\(--jp-/);
  });
});

describe('the scene', () => {
  const cpu = host('algo-1', [10, 20, 30], { cpu_percent: [null, 180, 212] });
  const memory = host('algo-1', [10, 20], { memory_bytes: [1.2e9, 1e9] });

  it('says in one sentence what is shown', () => {
    const loss = series('loss', [10, 30], [0.9, 0.2]);
    const told = buildViewModel(historyOf([cpu], [loss]), whole, trans)?.summary;
    expect(told).toBe('Over 20 seconds: loss fell from 0.9 to 0.2; CPU average 196 %, peak 212 %.');
  });

  it.each([
    [10, 'At one point in time: m stayed at 1.'],
    [10.25, 'Over 250 ms: m stayed at 1.'],
    [11, 'Over 1 second: m stayed at 1.']
  ])('says how short it was, until %s', (end, said) => {
    const history = historyOf([], [series('m', [10, end], [1, 1])]);
    expect(buildViewModel(history, whole, trans)?.summary).toBe(said);
  });

  it.each([
    [[2, 4], 'm rose from 2 to 4'],
    [[2, 2], 'm stayed at 2'],
    [[2], 'm is 2'],
    [[null, 2], 'm is 2'],
    [[null, null], 'm was never a finite number']
  ])('says of a metric %p: %s', (values, words) => {
    const history = historyOf(
      [],
      [
        series(
          'm',
          values.map((_, i) => i + 1),
          values
        )
      ]
    );
    expect(buildViewModel(history, whole, trans)?.summary).toContain(`: ${words}.`);
  });

  it('says how many metrics it does not tell, and of several hosts that it speaks of each', () => {
    const all = ['a', 'b', 'c', 'd', 'e', 'f'].map(name => series(name, [10, 20], [1, 2]));
    const told = buildViewModel(
      historyOf([cpu, { ...cpu, host: 'algo-2' }], all),
      whole,
      trans
    )?.summary;
    expect(told).toContain('d rose from 1 to 2; 2 more metrics; CPU');
    expect(told).toContain('on each of 2 hosts');
  });

  it('speaks of the part that is shown', () => {
    const choice = { ...whole, zoom: { from: 10, to: 20 } };
    const viewModel = buildViewModel(historyOf([memory]), choice, trans);
    expect(viewModel?.summary).toBe('From 00:00 to 00:10: peak memory 1.12 GiB.');
    expect(
      buildViewModel(historyOf([cpu]), { ...whole, zoom: { from: 11, to: 12 } }, trans)?.summary
    ).toBe('No data in this time range.');
  });

  it('draws in seconds since the beginning, one point with room around it, hidden lines not at all', () => {
    const history = historyOf([cpu], [series('loss', [40], [1])]);
    const scene = buildViewModel(
      history,
      { ...whole, hidden: new Set([line(history, 'cpu').key]) },
      trans
    );
    expect(scene?.drawings.map(drawing => drawing.table)).toEqual([[[30], [1]], [[]]]);
    expect(axisRange({ from: 5, to: 5, begin: 5, isWhole: true })).toEqual({ from: -0.5, to: 0.5 });
    expect(buildViewModel(new History(), whole, trans)).toBeNull();
  });

  it('has a table of a length that can be read', () => {
    const at = Array.from({ length: 1_000 }, (_, i) => i + 1);
    const history = historyOf([host('algo-1', at)]);
    const sight = { begin: 1, from: 1, to: 1_000, isWhole: true };
    const moments = sampleTimes(history.lines, sight, 50);
    expect([moments.length, moments[0], moments[49]]).toEqual([50, 1, 1_000]);
    expect(sampleTimes(history.lines, { ...sight, to: 3 }, 50)).toEqual([1, 2, 3]);
  });
});

describe('units', () => {
  it.each([
    [0, 'percent', '0 %'],
    [7.25, 'percent', '7.3 %'],
    [186.4, 'percent', '186 %'],
    [0, 'bytes', '0 B'],
    [2.5 * 2 ** 30, 'bytes', '2.5 GiB'],
    [250 * 2 ** 20, 'bytes', '250 MiB'],
    [1_454, 'rate', '1.42 KiB/s'],
    [0.21344, 'number', '0.2134'],
    [123_456, 'number', '123456'],
    [12_345.6, 'number', '12346'],
    [1e-7, 'number', '1e-7'],
    [-1_234_567, 'number', '-1.23e+6'],
    [0, 'number', '0']
  ] as const)('%p %s is %s', (value, unit, words) => {
    expect(formatValue(value, unit, trans)).toBe(words);
  });

  it.each([
    [[2.30258, 2.3026000000000004, 2.30262], 'number', ['2.30258', '2.3026', '2.30262']],
    [[12_345, 12_345.5], 'number', ['12345', '12345.5']],
    [[5_000_000, 5_000_100], 'number', ['5e+6', '5.0001e+6']],
    [[0.3, 0.35000000000000003, 0.4], 'number', ['0.3', '0.35', '0.4']],
    [[0.99985, 0.9999, 0.99995], 'number', ['0.99985', '0.9999', '0.99995']],
    [[0, 50, 100], 'percent', ['0 %', '50 %', '100 %']],
    [[0, 2 ** 29, 2 ** 30], 'bytes', ['0 B', '512 MiB', '1 GiB']],
    [[7], 'number', ['7']]
  ] as const)('%p %s stand at marks as %p', (marks, unit, words) => {
    expect(formatValueTicks(marks, unit, trans)).toEqual(words);
  });

  it.each([
    [0, '00:00'],
    [0.25, '00:00.25'],
    [0.1 + 0.2, '00:00.30'],
    [59.999, '01:00'],
    [3_661, '1:01:01'],
    [90_061, '1 d 1:01:01']
  ])('%p seconds are %s', (seconds, words) => {
    expect(formatTimeOffset(seconds, trans)).toBe(words);
  });
});

describe('the marks of a time axis', () => {
  it('have no words before the beginning', () => {
    const words = (seconds: number): string => formatTimeOffset(seconds, trans);
    expect(formatTimeTicks([-0.5, -0.2, 0, 0.5], words)).toEqual(['', '', '00:00', '00:00.50']);
  });
});

describe('zooming', () => {
  const span = { begin: 100, end: 200 };
  const sight = { begin: 100, from: 140, to: 160, isWhole: false };

  it.each([
    ['0', null],
    ['Escape', null],
    ['+', { from: 145, to: 155 }],
    ['-', { from: 130, to: 170 }],
    ['ArrowLeft', { from: 135, to: 155 }],
    ['ArrowRight', { from: 145, to: 165 }],
    ['x', undefined]
  ])('by the key %s', (key, part) => {
    expect(rangeForKey(key, sight, span)).toEqual(part);
  });

  it('stays within the time, and all of it is no part', () => {
    expect(clampRange({ from: 190, to: 230 }, span)).toEqual({ from: 160, to: 200 });
    expect(clampRange({ from: 50, to: 70 }, span)).toEqual({ from: 100, to: 120 });
    expect(clampRange({ from: 0, to: 900 }, span)).toBeNull();
    expect(clampRange({ from: 150, to: 150 }, span)).toEqual({ from: 150, to: 150.1 });
    expect(clampRange({ from: 150, to: 160 }, null)).toBeNull();
  });
});
