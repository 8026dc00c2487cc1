import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Panel, Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { formatMoment } from '../../format/numbers';
import { CardRenderer } from '../../notebook/cardRenderer';
import { parseCard } from '../../notebook/cardSnapshot';
import { EMPTY_STATE } from '../../state/state';
import { completed, job } from '../fixtures/examples';
import { button, FakeModel, waitForRender } from '../fixtures/fakeModel';

/** What is known of the file of a notebook. */
interface INotebook {
  cells: { outputs: { data?: Record<string, unknown> }[] }[];
}

type Saved = Record<string, unknown> & { name: string };

/** Below the folder in which tests run. */
const NOTEBOOK = 'tests/upgrade/made_by_6b340c9/cards.ipynb';
// The page has no files, so that types of Node's modules are no part of this project.
const { readFileSync } = jest.requireActual<{
  readFileSync: (path: string, encoding: string) => string;
}>('fs');
/** As that commit wrote it. */
const MIME_TYPE = 'application/vnd.jupyter-smx.card+json';
const trans = nullTranslator.load('jupyter_smx');

/** The cards of a notebook that 6b340c9 executed, by the base name of their job or array. */
function savedCards(): Map<string, Saved> {
  const { cells } = JSON.parse(readFileSync(NOTEBOOK, 'utf-8')) as INotebook;
  const bundles = cells.flatMap(cell => cell.outputs.map(output => output.data ?? {}));
  const cards = bundles.map(data => data[MIME_TYPE] as Saved);
  return new Map(cards.filter(Boolean).map(card => [card.name.split('-')[0], card]));
}

async function draw(data: unknown, model = new FakeModel()): Promise<CardRenderer> {
  const widget = new CardRenderer(model, new CommandRegistry(), trans);
  Widget.attach(widget, document.body);
  const mime = {
    data: { [MIME_TYPE]: data },
    metadata: {},
    trusted: false,
    setData: () => undefined
  };
  await widget.renderModel(mime as never);
  await waitForRender();
  return widget;
}

describe('a card in a notebook that 6b340c9 saved', () => {
  const cards = savedCards();

  it('is there for each job and array', () => {
    expect([...cards.keys()]).toEqual(['fit', 'squares', 'grid', 'broken']);
  });

  it.each([
    ['fit', ['fit-', 'Completed', 'loss', '0.25', 'local × 1']],
    ['squares', ['squares-', 'Completed', 'local × 1']],
    ['grid', ['sweep lr', '3 of 3 done']],
    ['broken', ['broken-', 'Failed', 'KeyError']]
  ])('draws %s', async (name, words) => {
    const card = cards.get(name);
    expect(parseCard(card as never)?.name).toBe(card?.name);
    const widget = await draw(card);
    for (const word of words) {
      expect(widget.node.textContent).toContain(word);
    }
    widget.dispose();
  });

  it('has a mark for each task of the array', async () => {
    const widget = await draw(cards.get('grid'));
    const marks = [...widget.node.querySelectorAll('[role=listitem]')];
    expect(marks.map(mark => mark.getAttribute('aria-label'))).toEqual([
      'task 0: completed',
      'task 1: completed',
      'task 2: completed'
    ]);
    widget.dispose();
  });
});

describe('a card whose job or array is not over', () => {
  const card = (summary: JobSummary): object => ({ id: 'a1', name: 'fit-1', summary });
  const array = { id: 'a1', name: 'grid', array: {} };

  it.each([
    ['a running job', card(job(1)), ['a1', '']],
    ['a job of other records', { ...card(job(1)), records_id: 'there' }, ['a1', 'there']],
    ['a job without a summary', { id: 'a1', name: 'fit-1' }, ['a1', '']],
    ['a completed job', card(completed(1)), []],
    ['an array with a running task', { ...array, states: 'cr' }, ['a1', '']],
    ['an array that is over', { ...array, states: 'cf' }, []],
    ['no job', 'a text', []]
  ])('lets the model read %s that it does not list', async (_, data, expected) => {
    const model = new FakeModel();
    const widget = await draw(data, model);
    expect(model.expectJob.mock.calls.flat()).toEqual(expected);
    widget.dispose();
  });
});

describe('a card whose job this server does not have', () => {
  const there = { id: 'a1', name: 'fit-1', records_id: 'there', at: 1100 };
  const words = 'This job is not on this Jupyter server';
  const elsewhere = (recordsId: string | null): FakeModel => {
    const model = new FakeModel();
    model.state = { ...EMPTY_STATE, connectionStatus: 'ready', recordsId };
    return model;
  };
  const buttons = (widget: Widget): number => widget.node.querySelectorAll('button').length;

  it('says so, from when it is, and which lines stop the job and show its log', async () => {
    const widget = await draw({ ...there, summary: job(1) }, elsewhere('here'));
    const { textContent } = widget.node;
    expect(textContent).toContain(words);
    expect(textContent).toContain(`%smx stop ${job(1).name} stops it`);
    expect(textContent).toContain(`as of ${formatMoment(1100, 1134)}`);
    expect(textContent).not.toContain('last save');
    expect(buttons(widget)).toBe(0);
    widget.dispose();
  });

  describe('in a notebook with a kernel', () => {
    type Iopub = { header: { msg_type: string }; content: Record<string, unknown> };
    const kernel = (status: string, messages: Iopub[], isDone = true): [object, string[]] => {
      const lines: string[] = [];
      const requestExecute = ({ code }: { code: string }): object => {
        lines.push(code);
        const future = {
          onIOPub: (_: Iopub): void => undefined,
          get done(): Promise<void> {
            messages.forEach(message => future.onIOPub(message));
            return isDone ? Promise.resolve() : Promise.reject(new Error('Canceled future'));
          }
        };
        return future;
      };
      return [{ status, requestExecute }, lines];
    };
    const inNotebook = async (kernelOrNull: object | null): Promise<Widget> => {
      const widget = await draw({ ...there, summary: job(1) }, elsewhere('here'));
      const notebook = Object.assign(new Panel(), {
        sessionContext: { session: { kernel: kernelOrNull } }
      });
      notebook.addWidget(widget);
      widget.update();
      await waitForRender();
      return notebook;
    };
    const press = async (notebook: Widget, label: 'Stop' | 'Log'): Promise<string> => {
      const line = label === 'Stop' ? 'stop' : 'logs';
      button(notebook.node, `${label}: run %smx ${line} ${job(1).name} in the kernel`).click();
      await waitForRender();
      return notebook.node.querySelector('.jp-smx-printed')?.textContent ?? '';
    };
    const iopub = (type: string, content: Record<string, unknown>): Iopub => ({
      header: { msg_type: type },
      content
    });

    it('lets its buttons run the lines there and shows what they print', async () => {
      const [there, lines] = kernel('idle', [
        iopub('status', { execution_state: 'busy' }),
        iopub('stream', { name: 'stdout', text: 'Stopping.\n' }),
        iopub('display_data', { data: { 'text/plain': 'a table' } }),
        iopub('error', { ename: 'UsageError', evalue: 'no such job' })
      ]);
      const notebook = await inNotebook(there);
      expect(await press(notebook, 'Stop')).toBe('Stopping.\na table\nUsageError: no such job');
      expect(await press(notebook, 'Log')).toContain('a table');
      expect(lines).toEqual([`%smx stop ${job(1).name}`, `%smx logs ${job(1).name}`]);
      notebook.dispose();
    });

    it('says that a busy kernel runs them later, that nothing was printed, or that it died', async () => {
      const never = {
        status: 'busy',
        requestExecute: () => ({ done: new Promise(() => undefined) })
      };
      const waiting = await inNotebook(never);
      expect(await press(waiting, 'Log')).toContain('after its cells');
      const silent = await inNotebook(kernel('idle', [])[0]);
      expect(await press(silent, 'Stop')).toContain('printed nothing');
      const dead = await inNotebook(kernel('idle', [], false)[0]);
      expect(await press(dead, 'Stop')).toContain('was not run: Canceled future');
      [waiting, silent, dead].forEach(notebook => notebook.dispose());
    });

    it('has no buttons without one', async () => {
      const notebook = await inNotebook(null);
      expect(notebook.node.querySelectorAll('button')).toHaveLength(0);
      notebook.dispose();
    });
  });

  it('says it of an array too', async () => {
    const data = { ...there, array: {}, states: 'cr' };
    const widget = await draw(data, elsewhere('here'));
    expect(widget.node.textContent).toContain(words);
    expect(widget.node.textContent).toContain('%smx stop fit-1 stops it');
    widget.dispose();
  });

  it('has no buttons when the job is over, since they would find no job', async () => {
    const widget = await draw({ ...there, summary: completed(1) }, elsewhere('here'));
    expect([widget.node.textContent?.includes(words), buttons(widget)]).toEqual([false, 0]);
    widget.dispose();
  });

  it.each(['there', null])('does not say so where the server has the records %p', async id => {
    const widget = await draw({ ...there, summary: job(1) }, elsewhere(id));
    expect(widget.node.textContent).not.toContain(words);
    expect(widget.node.textContent).toContain('as of the last save of the notebook');
    widget.dispose();
  });
});
