import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { partitionJobs } from '../../state/arrays';
import type { IState } from '../../state/state';
import { applyArrayCounts, applyListing, EMPTY_STATE } from '../../state/state';
import { arraySummary, arrayTask, completed, job } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

const over = (index: number): JobSummary =>
  completed(100 + index, { array: arrayTask(index, 12), created_at: 1000 });
const going = (index: number): JobSummary =>
  job(100 + index, { array: arrayTask(index, 12), created_at: 1000 });

function stateOf(jobs: JobSummary[], counts: Parameters<typeof arraySummary>[0]): IState {
  return applyArrayCounts(applyListing(EMPTY_STATE, jobs, [], 1).state, [arraySummary(counts)]);
}

beforeAll(layOut);

describe('an array', () => {
  const ids = (jobs: JobSummary[]): string[] => jobs.map(one => one.id);

  it('stands in one section with all of its tasks', () => {
    const jobs = [over(0), going(1), completed(1)];
    const live = partitionJobs(stateOf(jobs, { completed: 1, running: 1, pending: 10 }));
    expect(ids(live.running)).toEqual(['job-101', 'job-100']);
    expect(ids(live.finished)).toEqual(['job-1']);
    const done = partitionJobs(stateOf([over(0), over(1)], { completed: 12 }));
    expect([done.running.length, done.finished.length]).toEqual([0, 2]);
  });

  it('runs as long as a task does that is not listed', () => {
    const state = stateOf([over(0)], { completed: 1, pending: 11 });
    expect(ids(partitionJobs(state).running)).toEqual(['job-100']);
  });
});

describe('the row of an array', () => {
  let model: FakeModel;
  let panel: JobsPanel;
  let executed: [string, unknown][];

  beforeEach(async () => {
    model = new FakeModel();
    const added = fakeCommands();
    executed = added.executed;
    panel = new JobsPanel({ model, commands: added.commands, trans });
    Widget.attach(panel, document.body);
    const counts = { completed: 4, failed: 1, running: 2, pending: 5 };
    model.become(stateOf([going(2), over(0), going(1)], counts));
    await waitForRender();
  });

  afterEach(() => panel.dispose());

  const row = (): HTMLElement => panel.node.querySelector('[data-array]') as HTMLElement;
  const tasks = (): (string | null)[] =>
    [...panel.node.querySelectorAll('[data-task] .jp-smx-name')].map(one => one.textContent);
  const press = async (key: string): Promise<void> => {
    document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    await waitForRender();
  };

  it('counts all tasks, listed or not, in words and as a bar', () => {
    expect(row().textContent).toContain('2 running, 5 waiting, 4 completed, 1 failed of 12 tasks');
    expect(row().querySelectorAll('.jp-smx-count-bar span')).toHaveLength(12);
    expect(row().querySelector('.jp-smx-time [aria-hidden]')?.textContent).toBe('02:14');
  });

  it('unfolds with its button into its tasks, in their order, and says that some are not listed', async () => {
    const fold = button(row(), 'Tasks of train-a1');
    expect(fold.getAttribute('aria-expanded')).toBe('false');
    fold.click();
    await waitForRender();
    expect(tasks()).toEqual(['0: lr=0', '1: lr=1', '2: lr=2']);
    expect(row().textContent).toContain('3 listed');
    expect(button(row(), 'Tasks of train-a1').getAttribute('aria-expanded')).toBe('true');
  });

  it('unfolds and folds with keys', async () => {
    row().focus();
    await press('ArrowRight');
    expect(tasks()).toHaveLength(3);
    await press('ArrowLeft');
    expect(tasks()).toHaveLength(0);
    await press('Enter');
    expect(tasks()).toHaveLength(3);
  });

  it('stops all tasks, and each task stops itself', async () => {
    button(row(), 'Stop all tasks of train-a1').click();
    row().focus();
    await press('Delete');
    await press('ArrowRight');
    button(panel.node, 'Stop train-digits-101').click();
    expect(executed).toEqual([
      [CommandIDs.stopArray, 'a1'],
      [CommandIDs.stopArray, 'a1'],
      [CommandIDs.stopJob, 'job-101']
    ]);
  });

  it('is stopped by the key although all tasks that are listed are over', async () => {
    model.become(stateOf([over(0)], { completed: 1, pending: 11 }));
    await waitForRender();
    row().focus();
    await press('Delete');
    expect(executed).toEqual([[CommandIDs.stopArray, 'a1']]);
  });

  it('is deleted with its tasks when it is over', async () => {
    model.become(stateOf([over(0), over(1)], { completed: 12 }));
    await waitForRender();
    button(row(), 'Delete the listed tasks of train-a1').click();
    expect(executed).toEqual([[CommandIDs.deleteArray, 'a1']]);
  });
});
