import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { parseCard } from '../../notebook/cardSnapshot';
import {
  currentTaskStates,
  formatArrayStatus,
  formatTaskCounts,
  groupByArray
} from '../../state/arrays';
import { applyFailure } from '../../state/connectionState';
import {
  applyArrayCounts,
  applyControllerStopped,
  applyListing,
  EMPTY_STATE
} from '../../state/state';
import { arraySummary, arrayTask, completed, job } from '../fixtures/examples';
import { FakeModel, waitForRender } from '../fixtures/fakeModel';

const heading = 'sweep lr';
const trans = nullTranslator.load('jupyter_smx');

function task(index: number, fields: Partial<JobSummary> = {}, size = 4): JobSummary {
  return job(100 + index, { array: arrayTask(index, size), ...fields });
}

const done = { status: 'Completed', secondary_status: 'Completed', ended_at: 1100 } as const;
const card = { id: 'a1', name: 'train-a1', at: 1, array: { title: heading }, states: 'cfpp' };

describe('the states of an array', () => {
  it('are those of the notebook, and the current ones of tasks without a verdict there', () => {
    const jobs = [task(1), task(2), task(3, { secondary_status: 'Pending' }), job(1)];
    const saved = { id: 'a1', title: '', states: 'cfpp' };
    expect(currentTaskStates(saved, jobs)).toBe('cfrp');
    expect(currentTaskStates(saved, [task(2, done), task(9)])).toBe('cfcp');
    expect(currentTaskStates({ ...saved, id: 'other' }, jobs)).toBe('cfpp');
  });

  it('are counted in words', () => {
    expect(formatTaskCounts('cccc' + 'f' + 'rr' + 'ppppp', trans)).toBe(
      '4 of 12 done, 1 failed, 2 running, 5 waiting'
    );
    expect(formatTaskCounts('cs', trans)).toBe('1 of 2 done, 1 stopped');
  });
});

describe('a list of jobs', () => {
  it('groups the tasks of an array at the place of the first of them', () => {
    const rows = groupByArray([job(1), task(2), job(3), task(0, done)]);
    expect(rows.map(row => row.id)).toEqual(['job-1', 'a1', 'job-3']);
    const row = rows[1];
    expect('tasks' in row ? formatArrayStatus(row, trans) : '').toBe(
      '1 running, 1 completed of 4 tasks'
    );
    const [alone] = groupByArray([task(0, {}, 1)]);
    expect('tasks' in alone ? formatArrayStatus(alone, trans) : '').toBe('1 running of 1 task');
  });
});

describe('the card of an array', () => {
  function shown(data: Record<string, unknown>, model: FakeModel): CardRenderer {
    const widget = new CardRenderer(model, new CommandRegistry(), trans);
    Widget.attach(widget, document.body);
    const mime = {
      data: { [CARD_MIME_TYPE]: data },
      metadata: {},
      trusted: false,
      setData: () => undefined
    };
    void widget.renderModel(mime as never);
    return widget;
  }

  it('shows title, counts and a mark with words for each task, and follows the model', async () => {
    const model = new FakeModel();
    const widget = shown(card, model);
    await waitForRender();
    expect(widget.node.textContent).toContain('sweep lr');
    expect(widget.node.querySelector('[role=status]')?.textContent).toBe(
      '1 of 4 done, 1 failed, 2 waiting'
    );
    const marks = [...widget.node.querySelectorAll('[role=listitem]')];
    expect(marks.map(mark => mark.getAttribute('aria-label'))).toEqual([
      'task 0: completed',
      'task 1: failed',
      'task 2: waiting',
      'task 3: waiting'
    ]);
    model.become(applyListing(EMPTY_STATE, [task(2), task(3, done), completed(1)], [], 1).state);
    await waitForRender();
    expect(widget.node.querySelector('[role=status]')?.textContent).toBe(
      '2 of 4 done, 1 failed, 1 running'
    );
    widget.dispose();
  });

  it('says that it may be old if the notebook has the only state of a task', async () => {
    const old = 'as of the last save of the notebook';
    const model = new FakeModel();
    const widget = shown(card, model);
    await waitForRender();
    expect(widget.node.textContent).toContain(old);
    const one = applyListing(EMPTY_STATE, [task(2)], [], 1).state;
    model.become(one);
    await waitForRender();
    expect(widget.node.textContent).toContain(old);
    model.become(applyArrayCounts(one, [arraySummary({ running: 1, pending: 1 })]));
    await waitForRender();
    expect(widget.node.textContent).not.toContain(old);
    model.become(applyControllerStopped(model.state).state);
    await waitForRender();
    expect(widget.node.textContent).toContain(old);
    const lost = { kind: 'lost', status: 0, message: '', retryAfter: 0 } as const;
    model.become(applyFailure({ ...model.state, lastResponseAt: 1100 }, lost));
    await waitForRender();
    expect(widget.node.textContent).toContain('server not reachable');
    model.become(
      applyArrayCounts(applyListing(EMPTY_STATE, [], [], 1).state, [arraySummary({ completed: 2 })])
    );
    await waitForRender();
    expect(widget.node.textContent).toContain(old);
    model.become(applyListing(EMPTY_STATE, [task(2, done), task(3, done)], [], 1).state);
    await waitForRender();
    expect(widget.node.textContent).not.toContain(old);
    widget.dispose();
  });

  it('is empty if the notebook has something else', () => {
    expect(parseCard({ ...card, states: 5 })?.array).toBeNull();
    expect(parseCard({ ...card, array: 'x' })?.array).toBeNull();
    expect(parseCard({ ...card, array: {} })?.array?.title).toBe('');
  });
});
