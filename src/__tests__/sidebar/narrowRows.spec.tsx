import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { SplitPanel, Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { formatMoment } from '../../format/numbers';
import { parseJobOrder, sortJobs } from '../../model/jobOrder';
import { ContentHeight } from '../../sidebar/contentHeight';
import { insertCell } from '../../sidebar/insertCell';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { FIRST_CELL } from '../../sidebar/welcome';
import { applyFailure } from '../../state/connectionState';
import type { IState } from '../../state/state';
import { applyControllerStopped, applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job, pool } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

beforeAll(layOut);

describe('the rows of a narrow panel', () => {
  let model: FakeModel;
  let panel: JobsPanel;
  let executed: [string, unknown][];
  let added: [string, unknown][];

  beforeEach(() => {
    model = new FakeModel();
    const { commands, executed: list } = fakeCommands();
    executed = list;
    added = [];
    commands.addCommand('settingeditor:open', {
      describedBy: { args: { type: 'object' } },
      execute: args => added.push(['settings', args.query])
    });
    panel = new JobsPanel({
      model,
      commands,
      trans,
      keepOrder: order => added.push(['order', order]),
      insertCell: source => added.push(['insert', source])
    });
    Widget.attach(panel, document.body);
  });

  afterEach(() => panel.dispose());

  async function show(state: IState): Promise<void> {
    model.become(state);
    await waitForRender();
  }

  const list = (...jobs: JobSummary[]): Promise<void> =>
    show(applyListing(EMPTY_STATE, jobs, [], 1).state);
  const find = (what: string): HTMLElement => panel.node.querySelector(what) as HTMLElement;
  const names = (): (string | null)[] =>
    [...panel.node.querySelectorAll('[data-job] .jp-smx-name')].map(one => one.textContent);

  it('show the end of each name whole, and the whole name as the tooltip', async () => {
    const jobs = Array.from({ length: 12 }, (_, number) =>
      completed(number, { name: `${'gradient-boosting-'.repeat(3)}seed-${100 + number}` })
    );
    await list(...jobs);
    const tails = [...panel.node.querySelectorAll('.jp-smx-name-tail')].map(one => one.textContent);
    expect(new Set(tails).size).toBe(12);
    expect(tails[0]).toMatch(/seed-111$/);
    expect(names()[0]).toBe(jobs[11].name);
    expect(find('.jp-smx-name').title).toBe(jobs[11].name);
  });

  it('show a hostile name as text that is cut', async () => {
    await list(completed(1, { name: `<b>\u202e${'n'.repeat(5000)}` }));
    expect(names()[0]).toHaveLength(200);
    expect(names()[0]?.startsWith('<b>nnn')).toBe(true);
    expect(find('.jp-smx-name b')).toBeNull();
  });

  it('say when a job ended and label both durations, on one line with a tooltip', async () => {
    const metrics = { acc: 0.97 };
    await list(completed(1, { start: 'cold', first_line_seconds: 4.8, metrics }));
    const line = find('[data-job] .jp-smx-line');
    expect(line.textContent).toContain('took 1 min 40 s');
    expect(line.textContent).toContain(formatMoment(1101, 1134));
    expect(line.textContent).toContain('cold start 4.8 s');
    expect(line.textContent).toContain('acc 0.97');
    expect(line.title).toContain('Completed · ');
    expect(find('[data-job] .jp-smx-metrics')).toBeNull();
  });

  it('say in the tooltip why a job failed', async () => {
    const message = 'AlgorithmError: Exit Code: 3';
    await list(completed(1, { status: 'Failed', secondary_status: 'Failed', message }));
    expect(find('[data-job] .jp-smx-line').textContent).toContain('Failed: exit code 3');
    expect(find('[data-job] .jp-smx-line').title).toContain(message);
  });

  it('show a waiting job as one, with the reason of its engine', async () => {
    const message = 'Waiting at the engine slurm: Resources, position 3.';
    const waiting = { secondary_status: 'Pending', queue_position: 2, message } as const;
    await list(job(0), job(1, waiting), job(2, waiting));
    const mark = find('[data-job="job-1"] .jp-smx-mark');
    expect([mark.dataset.status, mark.textContent]).toEqual(['Pending', '◦']);
    expect(find('[data-job="job-0"] .jp-smx-mark').textContent).toBe('●');
    expect(find('[data-job="job-1"] .jp-smx-says').textContent).toBe(message);
    expect(find('.jp-smx-counts').textContent).toBe('1 running · 2 waiting · 0 warm');
  });

  it('name the pool as the command that releases it takes it, then hosts and engine', async () => {
    await show(applyListing(EMPTY_STATE, [], [pool(1)], 1).state);
    expect(find('[data-pool] .jp-smx-name').textContent).toBe('local-1');
    expect(find('[data-pool] .jp-smx-row-detail').textContent).toMatch(/^local × 1 · local ·/);
  });

  it('have buttons over their end only, so that the name has the whole width', async () => {
    await list(job(0), completed(1));
    const buttons = [...panel.node.querySelectorAll('[data-job] .jp-smx-row-buttons')];
    expect(buttons).toHaveLength(2);
    expect(buttons.every(one => one.classList.contains('jp-mod-over'))).toBe(true);
  });

  it('are sorted as chosen beside the title of the finished jobs', async () => {
    const jobs = [
      completed(1, { name: 'run-10', ended_at: 1200 }),
      completed(2, { name: 'run-9', created_at: 500 }),
      completed(3, { name: 'a', created_at: 1090 })
    ];
    await list(...jobs);
    const select = find('select[aria-label="Sort finished jobs"]') as HTMLSelectElement;
    const choose = async (order: string): Promise<(string | null)[]> => {
      const set = Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, 'value')?.set;
      set?.call(select, order);
      select.dispatchEvent(new Event('change', { bubbles: true }));
      await waitForRender();
      return names();
    };
    expect(names()).toEqual(['run-10', 'a', 'run-9']);
    expect(await choose('name')).toEqual(['a', 'run-9', 'run-10']);
    expect(await choose('duration')).toEqual(['run-9', 'run-10', 'a']);
    expect(await choose('newest')).toEqual(['run-10', 'a', 'run-9']);
    expect(added.map(([, order]) => order)).toEqual(['name', 'duration', 'newest']);
    panel.sortFinished('duration');
    await waitForRender();
    expect(names()).toEqual(['run-9', 'run-10', 'a']);
    expect(select.value).toBe('duration');
    expect(added).toHaveLength(3);
  });

  it('stop their clocks and disable their buttons while the server does not answer', async () => {
    const known = applyListing(EMPTY_STATE, [job(0), completed(1)], [pool(1)], 1).state;
    const lost = { kind: 'lost', status: 0, message: '', retryAfter: 0 } as const;
    model.now = () => 1300;
    await show(applyFailure({ ...known, lastResponseAt: 1134 }, lost));
    expect(find('[data-job="job-0"] .jp-smx-time [aria-hidden]').textContent).toBe('02:14');
    expect(find('[data-pool] .jp-smx-time span[aria-hidden]').textContent).toBe('14:27');
    button(panel.node, 'Stop train-digits-0').click();
    button(panel.node, 'Rerun train-digits-1').click();
    for (const words of ['Extend pool local-1 by 15 minutes', 'Release pool local-1']) {
      expect(button(panel.node, words).disabled).toBe(true);
    }
    find('[data-job="job-0"]').focus();
    document.activeElement?.dispatchEvent(
      new KeyboardEvent('keydown', { key: 'Delete', bubbles: true })
    );
    expect(executed).toEqual([]);
  });

  it('offer a user without jobs a cell to copy or insert, and warn of nothing', async () => {
    await show({ ...EMPTY_STATE, connectionStatus: 'asleep' });
    expect(find('.jp-smx-welcome pre').textContent).toBe(FIRST_CELL);
    expect(find('.jp-smx-welcome').textContent).not.toContain('No jobs yet');
    expect(find('[role=alert]')).toBeNull();
    button(panel.node, 'Insert the cell below the selected cell of the open notebook').click();
    expect(added).toEqual([['insert', FIRST_CELL]]);
    button(panel.node, 'Show earlier jobs').click();
    expect(executed).toEqual([[CommandIDs.wake, undefined]]);
  });

  it('do not offer it to a user with jobs, or while it is unknown whether there are any', async () => {
    await list(completed(1));
    expect(find('.jp-smx-welcome')).toBeNull();
    await show(applyControllerStopped(model.state).state);
    expect(find('.jp-smx-welcome')).toBeNull();
    await show(EMPTY_STATE);
    expect(find('.jp-smx-welcome')).toBeNull();
  });

  it('open our settings by the words that are in their titles', async () => {
    await show(EMPTY_STATE);
    button(panel.node, 'Settings for jobs and pools').click();
    expect(added).toEqual([['settings', 'Jobs and Pools']]);
  });
});

it('jobs stay in the order of their ends unless another is chosen', () => {
  const jobs = [completed(2), completed(1)];
  expect(sortJobs(jobs, 'newest')).toBe(jobs);
  expect(sortJobs(jobs, 'name').map(one => one.id)).toEqual(['job-1', 'job-2']);
  const settings = ['newest', 'name', 'duration', 'age', null, undefined];
  expect(settings.map(parseJobOrder)).toEqual([
    ...['newest', 'name', 'duration'],
    ...['newest', 'newest', 'newest']
  ]);
});

describe('a cell that is inserted', () => {
  const setSource = jest.fn();
  const tracker = { activeCell: { model: { sharedModel: { setSource } } } } as never;
  const insert = async (isEnabled: boolean): Promise<number> => {
    const commands = new CommandRegistry();
    const execute = jest.fn();
    commands.addCommand('notebook:insert-cell-below', {
      describedBy: { args: { type: 'object' } },
      isEnabled: () => isEnabled,
      execute
    });
    await insertCell(FIRST_CELL, commands, tracker, trans);
    return execute.mock.calls.length;
  };

  it('is below the selected one and has the code', async () => {
    expect(await insert(true)).toBe(1);
    expect(setSource.mock.calls).toEqual([[FIRST_CELL]]);
  });

  it('needs a notebook, and says so', async () => {
    setSource.mockClear();
    expect(await insert(false)).toBe(0);
    expect(setSource).not.toHaveBeenCalled();
    expect(Notification.manager.notifications[0].message).toContain('Open one');
    Notification.dismiss();
  });
});

describe('the height of a section', () => {
  it('is at most that of its content, and changes with it', () => {
    let report: () => void = () => undefined;
    const before = window.ResizeObserver;
    const disconnect = jest.fn();
    window.ResizeObserver = class {
      constructor(callback: () => void) {
        report = callback;
      }
      observe = jest.fn();
      unobserve = jest.fn();
      disconnect = disconnect;
    } as never;
    const parent = new SplitPanel();
    const widget = new Widget();
    parent.addWidget(widget);
    const other = new Widget();
    parent.addWidget(other);
    jest.spyOn(other.node, 'offsetHeight', 'get').mockReturnValue(500);
    let shown = 300;
    const fit = jest.spyOn(parent, 'fit').mockReset();
    const share = jest.spyOn(parent, 'setRelativeSizes');
    jest.spyOn(widget.node, 'offsetHeight', 'get').mockImplementation(() => shown);
    let pixels = 0;
    const content = { getBoundingClientRect: () => ({ height: pixels }) };
    const height = new ContentHeight(widget);
    height.follow(content as never);
    report();
    expect(widget.node.style.maxHeight).toBe('');
    pixels = 95.4;
    report();
    report();
    expect(widget.node.style.maxHeight).toBe('97px');
    expect(fit).toHaveBeenCalledTimes(1);
    expect(share).not.toHaveBeenCalled();
    // A section that was whole takes its missing pixels from the highest one.
    shown = 97;
    pixels = 137;
    report();
    expect(share.mock.calls).toEqual([[[137, 460]]]);
    // A section that the user made smaller stays so.
    shown = 60;
    pixels = 177;
    report();
    expect(widget.node.style.maxHeight).toBe('178px');
    expect(share).toHaveBeenCalledTimes(1);
    // Content that is higher than any panel limits nothing, and the panel is laid out once for all such heights.
    pixels = 5000;
    report();
    pixels = 9000;
    report();
    expect(widget.node.style.maxHeight).toBe('none');
    expect(fit).toHaveBeenCalledTimes(4);
    height.dispose();
    expect(disconnect).toHaveBeenCalledTimes(1);
    window.ResizeObserver = before;
  });
});
