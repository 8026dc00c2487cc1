import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { JobMetrics, JobUsage } from '../../_types';
import { ApiError } from '../../api/errors';
import type { IHistoryQuery } from '../../charts';
import { ChartsView } from '../../charts';
import { openCharts, visibleCharts } from '../../charts/openCharts';
import { button, waitForRender } from '../fixtures/fakeModel';
import type * as Drawn from '../fixtures/fakePlot';
import { FakePlot } from '../fixtures/fakePlot';
import { host, metrics, series, usage } from '../fixtures/history';

jest.mock('uplot', () => ({
  __esModule: true,
  default: jest.requireActual<typeof Drawn>('../fixtures/fakePlot').FakePlot
}));
window.ResizeObserver = class {
  observe = jest.fn();
  unobserve = jest.fn();
  disconnect = jest.fn();
};

let asked: { usage: IHistoryQuery[]; metrics: IHistoryQuery[] };
let answers: { usage: JobUsage; metrics: JobMetrics };
let failure: Error | null;
let page: EventTarget & { visibilityState: DocumentVisibilityState };
let view: ChartsView;

const cpu = (at: number[], values: number[]): JobUsage['hosts'][number] =>
  host('algo-1', at, { cpu_percent: values, cpus: 2 });

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['requestAnimationFrame'] });
  FakePlot.all = [];
  asked = { usage: [], metrics: [] };
  answers = { usage: usage([]), metrics: metrics([]) };
  failure = null;
  page = Object.assign(new EventTarget(), { visibilityState: 'visible' as const });
  const answered = <T,>(what: T): Promise<T> =>
    failure ? Promise.reject(failure) : Promise.resolve(what);
  view = new ChartsView({
    source: {
      usage: query => (asked.usage.push(query), answered(answers.usage)),
      metrics: ask => (asked.metrics.push(ask), answered(answers.metrics))
    },
    name: 'digits',
    page: page as never,
    trans: nullTranslator.load('jupyter_smx')
  });
});

afterEach(() => {
  view.dispose();
  jest.useRealTimers();
});

async function shown(): Promise<void> {
  Widget.attach(view, document.body);
  await waitForRender();
}

async function later(milliseconds: number): Promise<void> {
  await jest.advanceTimersByTimeAsync(milliseconds);
  await waitForRender();
}

const status = (): string | null | undefined =>
  view.node.querySelector('[role=status]')?.textContent;
const drawn = (): FakePlot[] => FakePlot.all.filter(plot => !plot.isDestroyed);
const summary = (): string | null | undefined =>
  view.node.querySelector('.jp-smx-charts-summary')?.textContent;

describe('the charts', () => {
  it('follow the job once a second from its last sample, and update the existing drawings', async () => {
    answers.usage = usage([cpu([100, 101], [50, 100])]);
    await shown();
    expect(drawn().map(plot => plot.data)).toEqual([
      [
        [0, 1],
        [50, 100]
      ]
    ]);
    answers.usage = usage([cpu([102], [120])]);
    await later(1_000);
    expect(asked.usage).toEqual([
      { since: 0, attempt: 0 },
      { since: 101, attempt: 0 }
    ]);
    expect(FakePlot.all.length).toBe(1);
    expect(drawn()[0].data).toEqual([
      [0, 1, 2],
      [50, 100, 120]
    ]);
    expect(summary()).toContain('peak 120 %');
    expect(status()).toBe('Updating live.');
  });

  it('poll less often without new data, and never more than once a second', async () => {
    answers.usage = usage([cpu([100], [50])]);
    await shown();
    await later(60_000);
    expect(asked.usage.length).toBeGreaterThan(10);
    expect(asked.usage.length).toBeLessThan(20);
  });

  it('read everything once more when the run is over, and then nothing', async () => {
    answers.usage = usage([cpu([100, 101], [50, 100])]);
    await shown();
    answers = {
      usage: usage([cpu([102], [0])], { is_final: true }),
      metrics: metrics([], { is_final: true })
    };
    await later(1_000);
    answers.usage = usage([cpu([100, 102], [50, 0])], { is_final: true });
    await later(60_000);
    expect(asked.usage.map(ask => ask.since)).toEqual([0, 101, 0]);
    expect(drawn()[0].data).toEqual([
      [0, 2],
      [50, 0]
    ]);
    expect(status()).toBe('The job has ended.');
    expect(view.node.textContent).not.toContain('Pause');
  });

  it('read a run that is over once', async () => {
    answers = {
      usage: usage([cpu([100], [50])], { is_final: true }),
      metrics: metrics([], { is_final: true })
    };
    await shown();
    view.hide();
    view.show();
    await later(10_000);
    expect(asked.usage.length).toBe(1);
  });

  it('send no requests while they are hidden or paused', async () => {
    answers.usage = usage([cpu([100], [50])]);
    await shown();
    page.visibilityState = 'hidden';
    page.dispatchEvent(new Event('visibilitychange'));
    await later(60_000);
    expect(asked.usage.length).toBe(1);
    page.visibilityState = 'visible';
    page.dispatchEvent(new Event('visibilitychange'));
    await waitForRender();
    expect(asked.usage.length).toBe(2);
    button(view.node, 'Pause').click();
    await later(60_000);
    view.hide();
    view.show();
    await later(60_000);
    expect(asked.usage.length).toBe(2);
    expect(status()).toBe('Paused. The job keeps running.');
    button(view.node, 'Pause').click();
    await later(10);
    expect(asked.usage.length).toBe(3);
  });

  it('are found by commands while they are visible', async () => {
    answers.usage = usage([cpu([100], [50])]);
    await shown();
    expect(visibleCharts()).toEqual([view]);
    visibleCharts()[0].pause();
    await later(60_000);
    expect(asked.usage.length).toBe(1);
    view.hide();
    expect(visibleCharts()).toEqual([]);
    view.dispose();
    expect(openCharts.size).toBe(0);
  });

  it('restart when the job does, and show an earlier run on request', async () => {
    answers.usage = usage([cpu([100, 101], [50, 100])]);
    await shown();
    const second = { attempt: 2, attempts: 2 };
    answers = { usage: usage([cpu([200], [7])], second), metrics: metrics([], second) };
    await later(1_000);
    await later(1_000);
    expect(asked.usage.map(ask => ask.since)).toEqual([0, 101, 0]);
    expect(drawn()[0].data).toEqual([[0], [7]]);
    const first = { attempt: 1, attempts: 2, is_final: true };
    answers = { usage: usage([cpu([100], [50])], first), metrics: metrics([], first) };
    const select = view.node.querySelector('select') as HTMLSelectElement;
    expect([...select.options].map(option => option.text)).toEqual(['newest', '1 of 2', '2 of 2']);
    select.value = '1';
    select.dispatchEvent(new Event('change', { bubbles: true }));
    await later(10);
    expect(asked.usage[asked.usage.length - 1]).toEqual({ since: 0, attempt: 1 });
    expect(drawn()[0].data).toEqual([[0], [50]]);
  });

  it('say why no new data comes, and continue when it does', async () => {
    answers.usage = usage([cpu([100], [50])]);
    await shown();
    failure = new ApiError(503, 'ServiceUnavailable', 'No controller runs.');
    await later(1_000);
    expect(status()).toBe('Cannot update the charts: No controller runs.');
    expect(drawn().length).toBe(1);
    failure = null;
    await later(20_000);
    expect(status()).toBe('Updating live.');
  });

  it('keep the data of a deleted job, and send no more requests', async () => {
    answers.usage = usage([cpu([100], [50])]);
    await shown();
    failure = new ApiError(404, 'ResourceNotFound', 'No such job.');
    await later(60_000);
    expect(asked.usage.length).toBe(2);
    expect(status()).toContain('This job was deleted.');
    expect(drawn().length).toBe(1);
  });

  it('of a deleted job have no other run to select', async () => {
    const second = { attempt: 2, attempts: 2 };
    answers = { usage: usage([cpu([200], [7])], second), metrics: metrics([], second) };
    await shown();
    expect(view.node.querySelectorAll('select').length).toBe(1);
    failure = new ApiError(404, 'ResourceNotFound', 'No such job.');
    await later(1_000);
    expect(view.node.querySelectorAll('select').length).toBe(0);
    expect(drawn()[0].data).toEqual([[0], [7]]);
  });

  it('keep polling after a 404 that is not of the server half', async () => {
    answers.usage = usage([cpu([100], [50])]);
    await shown();
    failure = new ApiError(404, '', 'The server answered 404.');
    await later(1_000);
    expect(status()).toBe('Cannot update the charts: The server answered 404.');
    failure = null;
    await later(20_000);
    expect(status()).toBe('Updating live.');
  });

  it('continue with another run that is selected while they are paused', async () => {
    const both = { attempt: 2, attempts: 2 };
    answers = { usage: usage([cpu([200], [7])], both), metrics: metrics([], both) };
    await shown();
    button(view.node, 'Pause').click();
    await waitForRender();
    const first = { attempt: 1, attempts: 2 };
    answers = { usage: usage([cpu([100], [50])], first), metrics: metrics([], first) };
    const select = view.node.querySelector('select') as HTMLSelectElement;
    select.value = '1';
    select.dispatchEvent(new Event('change', { bubbles: true }));
    await later(10);
    expect(drawn()[0].data).toEqual([[0], [50]]);
    expect(button(view.node, 'Pause').getAttribute('aria-pressed')).toBe('false');
  });

  it('say that nothing was measured', async () => {
    await shown();
    expect(status()).toBe('No measurements yet.');
    answers = { usage: usage([], { is_final: true }), metrics: metrics([], { is_final: true }) };
    await later(10_000);
    expect(status()).toContain('without measurements: it was too short, or it never ran.');
  });
});

describe('a part of the time', () => {
  beforeEach(async () => {
    answers.usage = usage([cpu([100, 150, 200], [50, 60, 70])]);
    await shown();
  });

  const area = (): HTMLElement => view.node.querySelector('.jp-smx-charts-area') as HTMLElement;
  const ends = (): number[] => drawn()[0].options.scales.x.range();
  const range = (): number[] => ends().map(end => Number(end.toFixed(3)));

  async function dragged(left: number, width: number): Promise<void> {
    const [plot] = drawn();
    plot.select = { left, width };
    plot.options.hooks.setSelect.forEach(hook => hook(plot));
    await waitForRender();
  }

  it('is selected by a drag, described in the sentence, and left by a double click', async () => {
    await dragged(40, 30);
    expect(range()).toEqual([40, 70]);
    expect(summary()).toBe('From 00:40 to 01:10: CPU average 60 %, peak 60 %.');
    expect(button(view.node, 'Reset zoom').disabled).toBe(false);
    drawn()[0].options.cursor.bind.dblclick()();
    await waitForRender();
    expect(range()).toEqual([0, 100]);
    expect(ends()[1]).toBeGreaterThan(100);
    expect(button(view.node, 'Reset zoom').disabled).toBe(true);
  });

  it('is selected and left with keys, and not by keys for something else', async () => {
    const press = async (key: string, more: KeyboardEventInit = {}): Promise<void> => {
      area().dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, ...more }));
      await waitForRender();
    };
    await press('+');
    expect(range()).toEqual([25, 75]);
    await press('ArrowRight');
    expect(range()).toEqual([37.5, 87.5]);
    await press('0', { ctrlKey: true });
    expect(range()).toEqual([37.5, 87.5]);
    await press('0');
    expect(range()).toEqual([0, 100]);
  });

  it('stays while the job runs, and not when it restarts', async () => {
    await dragged(40, 30);
    answers.usage = usage([cpu([201], [1])]);
    await later(1_000);
    expect(range()).toEqual([40, 70]);
    const second = { attempt: 2, attempts: 2 };
    answers = { usage: usage([cpu([300, 301], [7, 8])], second), metrics: metrics([], second) };
    await later(3_000);
    expect(range()).toEqual([0, 1]);
  });
});

describe('the controls around the drawings', () => {
  it('hides a line and shows it again, with its value at the pointer', async () => {
    const loss = series('loss', [100, 110], [0.9, 0.2]);
    answers.metrics = metrics([loss, series('val_loss', [100, 110], [1, 0.5])]);
    await shown();
    const toggle = (): HTMLButtonElement =>
      view.node.querySelector('.jp-smx-legend button') as HTMLButtonElement;
    expect(toggle().textContent).toBe('loss0.2');
    drawn()[0].cursor = { left: 4 };
    drawn()[0].options.hooks.setCursor.forEach(hook => hook(drawn()[0]));
    await waitForRender();
    expect(toggle().textContent).toBe('loss0.9');
    toggle().click();
    await waitForRender();
    expect(toggle().getAttribute('aria-pressed')).toBe('false');
    expect(drawn()[0].data).toEqual([
      [0, 10],
      [1, 0.5]
    ]);
    toggle().click();
    await waitForRender();
    expect(drawn()[0].data.length).toBe(3);
  });

  it('has the data as a table on request, and names values that are not numbers', async () => {
    answers.metrics = metrics([series('loss', [100, 110], [0.9, null])]);
    answers.usage = usage([cpu([100, 105], [50, 60])]);
    await shown();
    button(view.node, 'Tables').click();
    await waitForRender();
    const [figures, moments] = [...view.node.querySelectorAll('table')].map(table =>
      [...table.rows].map(row => [...row.cells].map(cell => cell.textContent))
    );
    expect(figures[1]).toEqual(['loss', 'loss', '0.9', '0.9', '0.9', '0.9', '2', '1']);
    expect(moments).toEqual([
      ['Since start', 'loss', 'CPU'],
      ['00:00', '0.9', '50 %'],
      ['00:05', '0.9', '60 %'],
      ['00:10', '–', '60 %']
    ]);
  });

  it('names each picture in words and shows one host on request', async () => {
    answers.usage = usage([cpu([100], [50]), { ...cpu([100], [150]), host: 'algo-2' }]);
    await shown();
    const names = (): (string | null)[] =>
      [...view.node.querySelectorAll('[role=img]')].map(one => one.getAttribute('aria-label'));
    expect(names()).toEqual(['Chart of CPU: CPU average 100 %, peak 150 %']);
    const select = view.node.querySelector('select') as HTMLSelectElement;
    select.value = 'algo-1';
    select.dispatchEvent(new Event('change', { bubbles: true }));
    await waitForRender();
    expect(names()[0]).toContain('peak 50 %');
  });

  it('is drawn again in the colours of another theme', async () => {
    answers.usage = usage([cpu([100], [50])]);
    await shown();
    const [before] = drawn();
    document.body.setAttribute('data-jp-theme-name', 'JupyterLab Dark');
    await waitForRender();
    expect(before.isDestroyed).toBe(true);
    expect(drawn().length).toBe(1);
    view.dispose();
    expect(drawn()).toEqual([]);
  });
});

describe('the axis of values', () => {
  it('begins at zero for resource use, and has room around a constant line', async () => {
    answers.usage = usage([cpu([100], [50])]);
    answers.metrics = metrics([series('loss', [100], [2])]);
    await shown();
    const [loss, used] = drawn().map(plot => plot.options.scales.y.range);
    expect(used(null, 50, 50)).toEqual([0, 54]);
    expect(used(null, 0, 0)).toEqual([0, 1]);
    expect(used(null, null, null)).toEqual([0, 1]);
    const [low, high] = loss(null, 2, 2);
    expect([low < 2, high > 2]).toEqual([true, true]);
    expect(loss(null, 0, 0)).toEqual([-1, 1]);
  });
});
