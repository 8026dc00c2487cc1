import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { cardCounts, formatCardCounts, mainTask } from '../../state/arrays';
import { applyArrayCounts, applyListing, EMPTY_STATE } from '../../state/state';
import { arraySummary, arrayTask, completed, job } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

const going = (index: number, fields: Partial<JobSummary> = {}): JobSummary =>
  job(index, { array: arrayTask(index, 4), ...fields });
const over = (index: number, fields: Partial<JobSummary> = {}): JobSummary =>
  completed(index, { array: arrayTask(index, 4), ...fields });
const FAILED = { status: 'Failed', secondary_status: 'Failed', failure_type: 'KeyError' } as const;
const WAITS = { secondary_status: 'Pending', queue_position: 1 } as const;

describe('the card of an array', () => {
  let model: FakeModel;
  let card: CardRenderer;
  let executed: [string, unknown][];

  beforeEach(async () => {
    model = new FakeModel();
    const added = fakeCommands();
    executed = added.executed;
    const tasks = [going(3, WAITS), going(2), over(1, FAILED), over(0)];
    model.become(applyListing(EMPTY_STATE, tasks, [], 1).state);
    card = new CardRenderer(model, added.commands, trans);
    Widget.attach(card, document.body);
    const array = { title: trans.__('sweep lr') };
    const data = { [CARD_MIME_TYPE]: { id: 'a1', name: 'train-a1', array, states: 'pppp' } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() });
    await waitForRender();
  });

  afterEach(() => card.dispose());

  it('has the name, and counts what runs, what waits and what failed', () => {
    expect(card.node.querySelector('.jp-smx-name')?.textContent).toBe('sweep lr · train-a1');
    expect(card.node.querySelector('[role=status]')?.textContent).toBe(
      '1 of 4 done, 1 failed, 1 running, 1 waiting'
    );
  });

  it('stops all tasks, runs the failed ones again, and opens the one that failed', () => {
    button(card.node, 'Stop all tasks of train-a1').click();
    button(card.node, 'Rerun the failed task of train-a1').click();
    button(card.node, 'Log of train-digits-1').click();
    button(card.node, 'Open train-digits-1').click();
    expect(executed).toEqual([
      [CommandIDs.stopArray, 'a1'],
      [CommandIDs.rerunFailedTasks, 'a1'],
      [CommandIDs.openLog, 'job-1'],
      [CommandIDs.openJob, 'job-1']
    ]);
  });

  it('unfolds into its tasks in their order, each with its state, log and view', async () => {
    const fold = button(card.node, 'Tasks of train-a1');
    expect(fold.getAttribute('aria-expanded')).toBe('false');
    expect(card['isTicking']()).toBe(false);
    fold.click();
    await waitForRender();
    expect(card['isTicking']()).toBe(true);
    const rows = [...card.node.querySelectorAll<HTMLElement>('li[data-job]')];
    expect(rows.map(row => row.dataset.job)).toEqual(['job-0', 'job-1', 'job-2', 'job-3']);
    expect(rows[1].textContent).toContain('1: lr=1');
    expect(rows[1].textContent).toContain('Failed: KeyError');
    expect(rows[3].textContent).toContain('Queued, position 1');
    button(rows[3], 'Log of train-digits-3').click();
    expect(executed).toEqual([[CommandIDs.openLog, 'job-3']]);
    button(card.node, 'Tasks of train-a1').click();
    await waitForRender();
    expect(card.node.querySelector('li[data-job]')).toBeNull();
  });

  it('has nothing to stop and nothing to run again when all is done', async () => {
    model.become(
      applyListing(
        EMPTY_STATE,
        [0, 1, 2, 3].map(one => over(one)),
        [],
        2
      ).state
    );
    await waitForRender();
    expect(() => button(card.node, 'Stop all tasks of train-a1')).toThrow('There is no button');
    expect(card.node.innerHTML).not.toContain('Rerun');
  });

  it('has no button where the server lists no task', async () => {
    model.become(applyListing(EMPTY_STATE, [], [], 2).state);
    await waitForRender();
    expect(card.node.querySelector('button')).toBeNull();
  });
});

describe('the counts of an array', () => {
  const saved = { id: 'a1', title: '', states: 'pppp' };

  it('are those of the server, which counts tasks that are not listed', () => {
    const counted = applyArrayCounts(EMPTY_STATE, [arraySummary({ completed: 3, failed: 1 })]);
    expect(formatCardCounts(cardCounts(saved, counted), trans)).toBe('3 of 4 done, 1 failed');
    // Of another size they are of an array that is not what the notebook has.
    const other = applyArrayCounts(EMPTY_STATE, [arraySummary({ completed: 3 })]);
    expect(formatCardCounts(cardCounts(saved, other), trans)).toBe('0 of 4 done, 4 waiting');
  });

  it('name the task that matters most', () => {
    expect(mainTask([over(0), going(1), over(2, FAILED)])?.id).toBe('job-2');
    expect(mainTask([over(0), going(1), going(2, WAITS)])?.id).toBe('job-1');
    expect(mainTask([over(0), over(1)])?.id).toBe('job-1');
    expect(mainTask([])).toBeUndefined();
  });
});
