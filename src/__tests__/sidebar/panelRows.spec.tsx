import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { Filter } from '../../model/filter';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { IMAGE_SETTINGS } from '../fixtures/jobRecords';
import { arrayTask, completed, job, pool } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

beforeAll(layOut);

describe('the filter', () => {
  const names = (text: string): string[] => {
    const filter = new Filter();
    filter.text = text;
    const failed = completed(2, { status: 'Failed', failure_type: 'KeyError', engine: 'ray' });
    return filter.jobs([job(1), failed]).map(one => one.id);
  };

  it('keeps what has each of its words, in any case and order', () => {
    expect(names('')).toEqual(['job-1', 'job-2']);
    expect(names('  ')).toEqual(['job-1', 'job-2']);
    expect(names('keyerror DIGITS')).toEqual(['job-2']);
    expect(names('inprogress')).toEqual(['job-1']);
    expect(names('ray inprogress')).toEqual([]);
  });

  it.each(['slurm', 'TRAIN:1', '3fa85f'])('looks at pools too: %s', text => {
    const filter = new Filter();
    filter.text = text;
    const image = {
      ...IMAGE_SETTINGS,
      name: 'team/train:1',
      id: 'sha256:3fa85f645717',
      digest: ''
    };
    const pools = [pool(1), pool(2, { engine: 'slurm', image })];
    expect(filter.pools(pools).map(one => one.id)).toEqual(['pool-2']);
    expect(filter.jobs([job(1), job(2, { engine: 'slurm', image })])).toHaveLength(1);
  });
});

describe('the rows', () => {
  let model: FakeModel;
  let panel: JobsPanel;
  let executed: [string, unknown][];

  beforeEach(() => {
    model = new FakeModel();
    const added = fakeCommands();
    executed = added.executed;
    panel = new JobsPanel({ model, commands: added.commands, trans });
    Widget.attach(panel, document.body);
  });

  afterEach(() => panel.dispose());

  function list(name: string): HTMLElement {
    const found = panel.node.querySelector<HTMLElement>(`ul[aria-label="${name}"]`);
    expect(found).not.toBeNull();
    return found as HTMLElement;
  }

  function press(key: string): void {
    document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  }

  const field = (): HTMLInputElement =>
    panel.node.querySelector('input[type=search]') as HTMLInputElement;

  async function type(text: string): Promise<void> {
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set;
    set?.call(field(), text);
    field().dispatchEvent(new Event('input', { bubbles: true }));
    await waitForRender();
  }

  async function show(count: number): Promise<HTMLElement> {
    const jobs = Array.from({ length: count }, (_, i) => completed(i));
    model.become(applyListing(EMPTY_STATE, jobs, [], 1, 'job-0').state);
    await waitForRender();
    return list('Finished jobs');
  }

  it('open with a double click, which selects no word', async () => {
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 1).state);
    await waitForRender();
    const row = list('Running jobs').querySelector('li') as HTMLElement;
    document.getSelection()?.selectAllChildren(row);
    row.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));
    expect(executed).toEqual([[CommandIDs.openJob, 'job-0']]);
    expect(document.getSelection()?.rangeCount).toBe(0);
  });

  it('name the engine and its machines, and say that a pool cannot be reached', async () => {
    const unreachable = 'Its hosts are not reachable since 14:05: gpu-box does not answer.';
    const pools = [
      pool(1, { engine: 'ssh', machines: ['gpu-box', 'cpu-box'], unreachable }),
      pool(2)
    ];
    const jobs = [job(0, { engine: 'ssh:a-long-name.lab.example.org' }), job(1)];
    model.become(applyListing(EMPTY_STATE, jobs, pools, 1).state);
    await waitForRender();
    const text = (row: string): string => panel.node.querySelector(row)?.textContent ?? '';
    expect(text('[data-job="job-0"]')).toContain('ssh:a-long-name.lab.example.org');
    expect(text('[data-job="job-1"] .jp-smx-row-detail')).not.toMatch(/local(?! ×)/);
    expect(text('[data-pool="pool-1"]')).toContain('ssh (gpu-box, cpu-box)');
    expect(text('[data-pool="pool-1"] .jp-smx-says')).toBe(unreachable);
    expect(panel.node.querySelector('[data-pool="pool-2"] .jp-smx-says')).toBeNull();
    const title = panel.node.querySelector<HTMLElement>('[data-pool="pool-1"] .jp-smx-name')?.title;
    expect(title).toBe('local-1: local × 1');
  });

  it('that are drawn of ten thousand are a few, and each says which of them it is', async () => {
    const rows = (await show(10_000)).querySelectorAll('li');
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.length).toBeLessThan(40);
    expect(rows[0].getAttribute('aria-setsize')).toBe('10000');
    expect(rows[0].getAttribute('aria-posinset')).toBe('1');
    expect(rows[0].dataset.job).toBe('job-9999');
  });

  it('ask for the next page only when the last of them comes into sight', async () => {
    await show(10_000);
    expect(model.loadMore).not.toHaveBeenCalled();
    await show(3);
    expect(model.loadMore).toHaveBeenCalled();
  });

  it('ask on as long as pages come that add no row, and stop with the last one', async () => {
    const tasks = (count: number): JobSummary[] =>
      Array.from({ length: count }, (_, i) => completed(i, { array: arrayTask(i, 3000) }));
    const read = [1000, 2000, 3000].map((count, page) => {
      const cursor = page < 2 ? `job-${count - 1}` : null;
      return applyListing(EMPTY_STATE, tasks(count), [], 1, cursor).state;
    });
    model.loadMore.mockImplementation(() => {
      const next = read.shift();
      return Promise.resolve(next && model.become(next));
    });
    await model.loadMore();
    await waitForRender();
    await waitForRender();
    expect(list('Finished jobs').querySelectorAll('li')).toHaveLength(1);
    expect(model.state.jobs.size).toBe(3000);
    expect(model.loadMore).toHaveBeenCalledTimes(3);
  });

  it('are looked for among older jobs as long as the filter lets none through', async () => {
    await show(2);
    await type('nobody');
    expect(panel.node.textContent).toContain('Searching older jobs…');
    const asked = model.loadMore.mock.calls.length;
    model.become({ ...model.state, cursor: 'job-x' });
    await waitForRender();
    expect(model.loadMore).toHaveBeenCalledTimes(asked + 1);
    model.become({ ...model.state, cursor: null });
    await waitForRender();
    expect(panel.node.textContent).toContain('No items match the filter.');
    expect(model.loadMore).toHaveBeenCalledTimes(asked + 1);
  });

  it('are not read on while their section is folded', async () => {
    panel.unfold(['running']);
    model.become(applyListing(EMPTY_STATE, [completed(1)], [], 1, 'job-1').state);
    await waitForRender();
    expect(model.loadMore).not.toHaveBeenCalled();
    panel.unfold(['finished']);
    await waitForRender();
    expect(model.loadMore).toHaveBeenCalledTimes(1);
  });

  it('have one stop for the Tab key, and arrows move it', async () => {
    const rows = await show(3);
    const stops = (): (string | undefined)[] =>
      [...rows.querySelectorAll<HTMLElement>('li[tabindex="0"]')].map(row => row.dataset.job);
    expect(stops()).toEqual(['job-2']);
    rows.querySelector('li')?.focus();
    press('ArrowDown');
    await waitForRender();
    expect(stops()).toEqual(['job-1']);
    expect((document.activeElement as HTMLElement).dataset.job).toBe('job-1');
    press('End');
    await waitForRender();
    press('ArrowDown');
    await waitForRender();
    expect((document.activeElement as HTMLElement).dataset.job).toBe('job-0');
    expect(button(rows, 'Delete train-digits-0').tabIndex).toBe(0);
    expect(button(rows, 'Delete train-digits-2').tabIndex).toBe(-1);
  });

  it('leave the focus where it went after an arrow that had nowhere to go', async () => {
    const rows = await show(2);
    rows.querySelector('li')?.focus();
    press('ArrowUp');
    field().focus();
    model.become(
      applyListing(EMPTY_STATE, [completed(0), completed(1), completed(2)], [], 2).state
    );
    await waitForRender();
    expect(list('Finished jobs').querySelectorAll('li')).toHaveLength(3);
    expect(document.activeElement).toBe(field());
  });

  it('are deleted and stopped with the key for that', async () => {
    model.become(applyListing(EMPTY_STATE, [job(0), completed(1)], [], 1).state);
    await waitForRender();
    list('Running jobs').querySelector('li')?.focus();
    press('Delete');
    list('Finished jobs').querySelector('li')?.focus();
    press('Delete');
    expect(executed).toEqual([
      [CommandIDs.stopJob, 'job-0'],
      [CommandIDs.deleteJob, 'job-1']
    ]);
  });

  it('hand the focus on when the row that had it goes away, however soon the browser is idle', async () => {
    const rows = await show(2);
    button(rows, 'Delete train-digits-1').focus();
    const idle = jest.spyOn(window, 'requestIdleCallback').mockImplementation(work => {
      queueMicrotask(() => work({ didTimeout: false, timeRemaining: () => 50 }));
      return 0;
    });
    model.become(applyListing(EMPTY_STATE, [completed(0)], [], 2).state);
    await waitForRender();
    expect((document.activeElement as HTMLElement).dataset.job).toBe('job-0');
    idle.mockRestore();
  });

  it('hand the focus to the row that comes in its place, and at the end to the last one', async () => {
    const rows = await show(5);
    rows.querySelector<HTMLElement>('[data-job="job-2"]')?.focus();
    const left = (numbers: number[]): Promise<void> => {
      const jobs = numbers.map(number => completed(number));
      model.become(applyListing(EMPTY_STATE, jobs, [], 2).state);
      return waitForRender();
    };
    const focused = (): string | undefined => (document.activeElement as HTMLElement).dataset.job;
    await left([4, 3, 1, 0]);
    expect(focused()).toBe('job-1');
    press('End');
    await waitForRender();
    await left([4, 3, 1]);
    expect(focused()).toBe('job-1');
  });

  it('are narrowed by what is typed, and say so when nothing is left', async () => {
    model.become(applyListing(EMPTY_STATE, [completed(0), completed(1)], [], 1).state);
    await waitForRender();
    await type('digits-1');
    expect(list('Finished jobs').querySelectorAll('li')).toHaveLength(1);
    await type('nobody');
    expect(panel.node.textContent).toContain('No items match the filter.');
    expect(field().value).toBe('nobody');
  });
});
