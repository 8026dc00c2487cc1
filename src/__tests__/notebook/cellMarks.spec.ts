import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import type { ICardSnapshot } from '../../notebook/cardSnapshot';
import { parseCard } from '../../notebook/cardSnapshot';
import type { ICellMark } from '../../notebook/cellMark';
import { createCellMark } from '../../notebook/cellMark';
import type { IMarkedNotebook } from '../../notebook/cellMarkRenderer';
import { CellMarkRenderer } from '../../notebook/cellMarkRenderer';
import {
  applyArrayCounts,
  applyControllerStopped,
  applyListing,
  EMPTY_STATE
} from '../../state/state';
import { arraySummary, completed, job } from '../fixtures/examples';
import { FakeModel, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

const card = (number: number): Record<string, unknown> => ({
  id: `job-${number}`,
  name: `train-digits-${number}`,
  summary: job(number)
});
const read = (data: Record<string, unknown>): ICardSnapshot =>
  parseCard(data as never) as ICardSnapshot;
const cards = (...numbers: number[]): ICardSnapshot[] => numbers.map(number => read(card(number)));
const knowing = (...jobs: ReturnType<typeof job>[]): typeof EMPTY_STATE =>
  applyListing(EMPTY_STATE, jobs, [], 1).state;

describe('the mark of a cell', () => {
  it('says whether its job runs warm or cold, and how it ended', () => {
    const sign = (one: ReturnType<typeof job>): [string, string] | null => {
      const mark = createCellMark(cards(1), knowing(one), trans);
      return mark && [mark.sign, mark.words];
    };
    const warm = { start: 'warm', first_line_seconds: 0.006 } as const;
    expect(sign(job(1, warm))).toEqual(['●', 'Job train-digits-1: Training, warm start 6 ms']);
    expect(sign(job(1, { start: 'cold' }))).toEqual([
      '○',
      'Job train-digits-1: Training, cold start'
    ]);
    const queued = { secondary_status: 'Pending', queue_position: 2 } as const;
    expect(sign(job(1, queued))).toEqual(['◦', 'Job train-digits-1: Queued, position 2']);
    expect(sign(completed(1))).toEqual(['✓', 'Job train-digits-1: Completed']);
    const failed = { status: 'Failed', failure_type: 'KeyError', failure_line: 4 } as const;
    const verdict = { secondary_status: 'Failed' } as const;
    expect(sign(completed(1, { ...failed, ...verdict }))).toEqual([
      '✗',
      'Job train-digits-1: Failed: KeyError, line 4'
    ]);
  });

  it('is as in the notebook if nothing newer is known', () => {
    const words = createCellMark(cards(1), EMPTY_STATE, trans)?.words;
    expect(words).toBe('Job train-digits-1: Training, as of the last save of the notebook');
    expect(createCellMark([read({ id: 'x', name: 'y' })], EMPTY_STATE, trans)).toBeNull();
    expect(createCellMark([], EMPTY_STATE, trans)).toBeNull();
  });

  it('shows of several jobs the one that runs, then the one that failed', () => {
    const failed = completed(4, { status: 'Failed', secondary_status: 'Failed' });
    const all = cards(1, 2, 3, 4, 5);
    const mark = (...jobs: ReturnType<typeof job>[]): ICellMark | null =>
      createCellMark(
        all,
        knowing(completed(1), completed(2), completed(3), failed, ...jobs),
        trans
      );
    expect(mark(job(5))?.status).toBe('InProgress');
    expect(mark(job(5))?.words).toMatch(
      /^Job train-digits-5: Training; Job train-digits-4: Failed; .*; and 2 more$/
    );
    expect(mark(completed(5))?.status).toBe('Failed');
    expect(mark(completed(5))?.words).toMatch(/^Job train-digits-4: Failed; /);
    expect(createCellMark(all, EMPTY_STATE, trans)?.words).toContain('; and 2 more');
  });

  it('is as in the notebook for a job whose controller has exited', () => {
    const gone = applyControllerStopped(knowing(job(0, { start: 'warm' }))).state;
    expect(createCellMark(cards(0), gone, trans)?.words).toContain('last save of the notebook');
  });

  it('counts the tasks of an array', () => {
    const array = { id: 'a1', name: 'train-a1', array: { title: '' }, states: 'ccfr' };
    const mark = createCellMark([read(array)], EMPTY_STATE, trans);
    expect([mark?.status, mark?.words]).toEqual([
      'InProgress',
      'Array train-a1: 2 of 4 done, 1 failed, 1 running, as of the last save of the notebook'
    ]);
    const goesOn = applyArrayCounts(EMPTY_STATE, [
      arraySummary({ completed: 2, failed: 1, running: 1 })
    ]);
    expect(createCellMark([read(array)], goesOn, trans)?.words).toBe(
      'Array train-a1: 2 of 4 done, 1 failed, 1 running'
    );
  });
});

describe('the marks of a notebook', () => {
  /** A cell with outputs, and with an input area once it was visible. */
  class FakeCell {
    isDisposed = false;
    inputArea: { node: HTMLElement } | null = null;
    list: Record<string, unknown>[] = [];
    changed = new Signal<this, void>(this);
    model = {
      type: 'code',
      outputs: {
        changed: this.changed,
        get: (index: number) => ({ data: { [CARD_MIME_TYPE]: this.list[index] } }),
        length: 0
      }
    };

    show(): this {
      this.inputArea = { node: document.createElement('div') };
      return this;
    }

    hold(...list: Record<string, unknown>[]): void {
      this.list = list;
      this.model.outputs.length = list.length;
      this.changed.emit();
    }

    get mark(): HTMLElement | null {
      return this.inputArea?.node.querySelector('.jp-smx-cell-mark') ?? null;
    }
  }

  class FakeNotebook {
    widgets: FakeCell[] = [];
    modelChanged = new Signal<this, void>(this);
    cellInViewportChanged = new Signal<this, FakeCell>(this);
    model = { cells: { changed: new Signal<object, void>({}) } };

    add(cell: FakeCell): FakeCell {
      this.widgets.push(cell);
      this.model.cells.changed.emit();
      return cell;
    }
  }

  let notebook: FakeNotebook;
  let jobs: FakeModel;
  let marks: CellMarkRenderer;

  beforeEach(() => {
    notebook = new FakeNotebook();
    jobs = new FakeModel();
    marks = new CellMarkRenderer(notebook as unknown as IMarkedNotebook, jobs, trans);
  });

  afterEach(() => marks.dispose());

  it('come with the card, follow the job, and go with the output', async () => {
    const cell = notebook.add(new FakeCell().show());
    await waitForRender();
    expect(cell.mark).toBeNull();
    jobs.become(knowing(job(1)));
    cell.hold(card(1));
    await waitForRender();
    expect(cell.mark?.getAttribute('aria-label')).toBe('Job train-digits-1: Training');
    expect(cell.mark?.getAttribute('role')).toBe('img');
    jobs.become(knowing(completed(1)));
    await waitForRender();
    expect(cell.mark?.dataset.status).toBe('Completed');
    expect(cell.inputArea?.node.children).toHaveLength(1);
    cell.hold();
    await waitForRender();
    expect(cell.mark).toBeNull();
  });

  it('are in cells that had a card before, and in those that become visible later', async () => {
    const cell = new FakeCell();
    cell.hold(card(1));
    notebook.add(cell);
    await waitForRender();
    cell.show();
    notebook.cellInViewportChanged.emit(cell);
    await waitForRender();
    expect(cell.mark?.textContent).toBe('○');
  });

  it('are all removed with their plugin', async () => {
    const cell = new FakeCell().show();
    cell.hold(card(1));
    notebook.add(cell);
    await waitForRender();
    expect(cell.mark).not.toBeNull();
    marks.dispose();
    expect(cell.mark).toBeNull();
    cell.hold(card(2));
    await waitForRender();
    expect(cell.mark).toBeNull();
  });
});
