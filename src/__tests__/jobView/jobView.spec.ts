import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { ApiError } from '../../api/errors';
import { CommandIDs } from '../../commands/commandIds';
import type { ICurrentCode } from '../../jobView/codeLocator';
import type { IJobViewContext } from '../../jobView/context';
import { JobRecord } from '../../jobView/jobRecord';
import { JobView } from '../../jobView/jobView';
import type { LogView } from '../../log';
import { applyFailure } from '../../state/connectionState';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, waitForRender } from '../fixtures/fakeModel';
import { IMAGE_SETTINGS, record, SPEC } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

/** Milliseconds after an edit until the code is compared again. */
const EDIT_MS = 300;

/** Let timeouts alone wait for the test; what draws goes on by itself. */
function fakeTimeouts(): void {
  jest.useFakeTimers({
    doNotFake: [
      'cancelAnimationFrame',
      'clearImmediate',
      'clearInterval',
      'Date',
      'hrtime',
      'nextTick',
      'performance',
      'queueMicrotask',
      'requestAnimationFrame',
      'setImmediate',
      'setInterval'
    ]
  });
}

describe('the view of a job', () => {
  let model: FakeModel;
  let view: JobView;
  let log: Widget;
  let executed: [string, unknown][];
  let origin: ICurrentCode | 'gone';
  const answers = {
    record: jest.fn(),
    difference: jest.fn(),
    advice: jest.fn(),
    cell: jest.fn()
  };
  const close = jest.fn();

  beforeEach(() => {
    answers.record.mockReset().mockResolvedValue(record());
    answers.difference.mockReset().mockResolvedValue({
      before: 'a',
      after: 'b',
      sentence: 'No differences.',
      code: [],
      changes: [],
      unknown: []
    });
    answers.advice.mockReset().mockResolvedValue([]);
    origin = { text: '%%train \\\n -k 1\nx = 1\nprint(x)', path: 'a.ipynb' };
    answers.cell.mockReset().mockImplementation(() => Promise.resolve(origin));
    model = new FakeModel();
    model.state = applyListing(
      EMPTY_STATE,
      [completed(0), completed(9), completed(-5)],
      [],
      1
    ).state;
    const added = fakeCommands();
    executed = added.executed;
    const source = {
      record: answers.record,
      difference: answers.difference,
      advice: answers.advice,
      places: () => Promise.resolve({}),
      address: (name: string) => name
    };
    // The view disposes it.
    const followed = new JobRecord({
      id: 'job-0',
      model,
      source,
      page: document,
      random: () => 0.5
    });
    const context: IJobViewContext = {
      name: 'train-digits-0',
      record: followed,
      source,
      history: { usage: jest.fn(), metrics: jest.fn() },
      model,
      commands: added.commands,
      codeLocator: { cell: answers.cell, file: answers.cell },
      languages: null,
      trans,
      close
    };
    log = new Widget();
    view = new JobView(context, log as LogView);
    Widget.attach(view, document.body);
  });

  afterEach(() => {
    jest.useRealTimers();
    view.dispose();
  });

  const tab = (name: string): HTMLElement => {
    const tabs = [...view.node.querySelectorAll<HTMLElement>('[role=tab]')];
    const found = tabs.find(one => one.textContent === name);
    if (!found) {
      throw new Error(`There is no tab ${name}.`);
    }
    return found;
  };
  const shown = (): HTMLElement[] =>
    [...view.node.querySelectorAll<HTMLElement>('[role=tabpanel]')].filter(
      node => !node.classList.contains('lm-mod-hidden')
    );

  it('shows its log first, and one section at a time, each named by its tab', async () => {
    await waitForRender();
    expect(log.isVisible).toBe(true);
    view.openSection('events');
    await waitForRender();
    expect(log.isVisible).toBe(false);
    expect(shown()).toHaveLength(1);
    expect(shown()[0].getAttribute('aria-labelledby')).toBe(tab('Events').id);
    expect(shown()[0].textContent).toContain('Launching.');
    expect(view.title.label).toBe('train-digits-0');
    expect(view.node.getAttribute('aria-label')).toBe('Job train-digits-0');
  });

  it('gives its focus to the tab that is chosen', async () => {
    await waitForRender();
    view.activate();
    await waitForRender();
    expect(document.activeElement).toBe(tab('Log'));
    view.openSection('cost');
    await waitForRender();
    expect(document.activeElement).toBe(tab('Cost'));
  });

  it('asks for advice when its cost is shown, and not before', async () => {
    await waitForRender();
    expect(answers.advice).not.toHaveBeenCalled();
    answers.advice.mockResolvedValue([
      { rule: 'CPUBottleneck', host: 'algo-1', sentence: 'It waits.', prediction: '', numbers: {} }
    ]);
    view.openSection('cost');
    await waitForRender();
    expect(answers.advice).toHaveBeenCalledTimes(1);
    expect(view.node.textContent).toContain('It waits.');
  });

  it('reads the record of a running job again when a section is shown', async () => {
    answers.record.mockResolvedValue(record({ summary: job(0), ended_at: null }));
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 1).state);
    view.openSection('files');
    await waitForRender();
    const { bill } = record();
    const counted = { ...bill, step_seconds: 2, cost_per_step: 0.001 };
    answers.record.mockResolvedValue(record({ summary: job(0), ended_at: null, bill: counted }));
    view.openSection('cost');
    await waitForRender();
    expect(shown()[0].textContent).toContain('$0.00100 per step');
    model.become(applyListing(EMPTY_STATE, [completed(0)], [], 1).state);
    await waitForRender();
    const asked = answers.record.mock.calls.length;
    view.openSection('events');
    await waitForRender();
    expect(answers.record).toHaveBeenCalledTimes(asked);
  });

  it('shows no advice that was overtaken by newer, and asks again after trouble', async () => {
    await waitForRender();
    let answer: (found: unknown) => void = () => undefined;
    answers.advice.mockReturnValueOnce(new Promise(resolve => (answer = resolve)));
    const one = { rule: 'CPUBottleneck', host: 'algo-1', prediction: '', numbers: {} };
    view.openSection('cost');
    await waitForRender();
    answers.advice.mockResolvedValue([{ ...one, sentence: 'It waits no more.' }]);
    answers.record.mockResolvedValue(record({ attempt: 2 }));
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 2).state);
    await waitForRender();
    expect(view.node.textContent).toContain('It waits no more.');
    answer([{ ...one, sentence: 'It waits for input.' }]);
    await waitForRender();
    expect(view.node.textContent).toContain('It waits no more.');
    expect(view.node.textContent).not.toContain('It waits for input.');
    // The same state is asked for once, unless there was trouble.
    model.become(applyListing(EMPTY_STATE, [job(0, { pool: 'p-1' })], [], 3).state);
    await waitForRender();
    expect(answers.advice).toHaveBeenCalledTimes(2);
    answers.record.mockResolvedValue(record({ attempt: 3 }));
    answers.advice.mockRejectedValueOnce(new Error('It is away.'));
    model.become(applyListing(EMPTY_STATE, [job(0, { attempt: 3 })], [], 4).state);
    await waitForRender();
    expect(view.node.textContent).toContain('It is away.');
    model.become(applyListing(EMPTY_STATE, [job(0, { attempt: 3, pool: 'p-2' })], [], 5).state);
    await waitForRender();
    expect(answers.advice).toHaveBeenCalledTimes(4);
    expect(view.node.textContent).toContain('It waits no more.');
  });

  it('reads nothing while it is hidden', async () => {
    await waitForRender();
    view.hide();
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 2).state);
    await waitForRender();
    expect(answers.record).toHaveBeenCalledTimes(1);
    view.show();
    await waitForRender();
    expect(answers.record).toHaveBeenCalledTimes(2);
  });

  it('has the buttons that suit its state', async () => {
    await waitForRender();
    button(view.node, 'Rerun').click();
    button(view.node, 'Delete').click();
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 2).state);
    await waitForRender();
    button(view.node, 'Stop').click();
    expect(executed).toEqual([
      [CommandIDs.rerunJob, 'job-0'],
      [CommandIDs.deleteJob, 'job-0'],
      [CommandIDs.stopJob, 'job-0']
    ]);
    expect(() => button(view.node, 'Interrupt…')).toThrow('There is no button');
    expect(button(view.node, 'Shell').disabled).toBe(false);
    model.become(applyListing(EMPTY_STATE, [job(0, { spot: true })], [], 3).state);
    await waitForRender();
    button(view.node, 'Interrupt…').click();
    expect(executed[3]).toEqual([CommandIDs.interruptJob, 'job-0']);
  });

  it('says what is done before the code runs, and what its hosts are made of', async () => {
    const head = (): string => view.node.querySelector('.jp-smx-view-head')?.textContent ?? '';
    const image = { ...IMAGE_SETTINGS, name: 'hub/train:1', id: '', digest: '' };
    const looking = { secondary_status: 'Pending', start: 'none', message: 'Looking.' } as const;
    model.become(applyListing(EMPTY_STATE, [job(0, { ...looking, image })], [], 2).state);
    await waitForRender();
    expect(head()).toContain('train:1');
    expect(head().match(/Looking\./g)).toHaveLength(1);
    expect(() => button(view.node, 'Shell')).toThrow('There is no button');
    const copying = { secondary_status: 'Downloading', message: 'Copying.' } as const;
    const known = { ...IMAGE_SETTINGS, ...image, id: 'sha256:3fa85f6457170000' };
    model.become(applyListing(EMPTY_STATE, [job(0, { ...copying, image: known })], [], 3).state);
    await waitForRender();
    expect(head()).toContain('Copying.');
    expect(head()).toContain('train:1 (3fa85f645717)');
  });

  it('finds out that a job is gone that was deleted here and is not listed', async () => {
    model.become(applyListing(EMPTY_STATE, [], [], 2).state);
    await waitForRender();
    answers.record.mockRejectedValue(new ApiError(404, 'ResourceNotFound', ''));
    button(view.node, 'Delete').click();
    await waitForRender();
    expect(view.node.querySelector('[role=alert]')?.textContent).toContain('was deleted');
  });

  it('says why the job failed, by the record, with the line that cures it', async () => {
    const summary = completed(0, { status: 'Failed', failure_type: 'NameError' });
    const told = { failure_message: 'AlgorithmError: NameError: x', failure_cure: 'Add --send x' };
    answers.record.mockResolvedValue(record({ ...told, summary }));
    model.become(applyListing(EMPTY_STATE, [{ ...summary, attempt: 2 }], [], 2).state);
    await waitForRender();
    const of = (what: string): unknown => view.node.querySelector(what)?.textContent;
    expect([of('.jp-smx-reason'), of('.jp-smx-failure code')]).toEqual(['x', '--send x']);
  });

  it('has its buttons disabled, and not gone, while the server does not answer', async () => {
    await waitForRender();
    const lost = { kind: 'lost', status: 0, message: '', retryAfter: 0 } as const;
    model.become(applyFailure({ ...model.state, lastResponseAt: 1134 }, lost));
    await waitForRender();
    const buttons = ['Rerun', 'Compare…', 'Delete'].map(name => button(view.node, name));
    expect(buttons.map(one => one.disabled)).toEqual([true, true, true]);
  });

  it('says that the job was deleted, and keeps what was read', async () => {
    await waitForRender();
    answers.record.mockRejectedValue(new ApiError(404, 'ResourceNotFound', ''));
    view.openSection('events');
    model.become(applyListing(EMPTY_STATE, [], [], 2).state);
    await waitForRender();
    expect(view.node.querySelector('[role=alert]')?.textContent).toContain('was deleted');
    expect(shown()[0].textContent).toContain('Launching.');
    button(view.node, 'Close this tab').click();
    expect(close).toHaveBeenCalledTimes(1);
  });

  it('wakes the controller that has left', async () => {
    await waitForRender();
    answers.record.mockRejectedValue(new ApiError(503, 'ServiceUnavailable', ''));
    model.become({ ...EMPTY_STATE, connectionStatus: 'asleep' });
    await waitForRender();
    button(view.node, 'Start the controller').click();
    expect(executed).toEqual([[CommandIDs.wake, undefined]]);
  });

  it('says what to do where the server half is missing', async () => {
    await waitForRender();
    answers.record.mockRejectedValue(new ApiError(404, '', 'Not Found'));
    model.become({ ...EMPTY_STATE, connectionStatus: 'missing' });
    await waitForRender();
    expect(view.node.textContent).toContain('pip install jupyter-smx');
  });

  it('compares in the order in which the jobs were made', async () => {
    await waitForRender();
    view.compareWith('');
    await waitForRender();
    view.compareWith('job--5');
    await waitForRender();
    view.compareWith('job-9');
    await waitForRender();
    expect(answers.difference.mock.calls).toEqual([
      ['', 'job-0'],
      ['job--5', 'job-0'],
      ['job-0', 'job-9']
    ]);
    expect(shown()[0].textContent).toContain('No differences.');
  });

  it('shows at once with which job it is compared, listed or not', async () => {
    await waitForRender();
    view.compareWith('');
    await waitForRender();
    const select = (): HTMLSelectElement => shown()[0].querySelector('select') as HTMLSelectElement;
    let answer: (found: object) => void = () => undefined;
    answers.difference.mockReturnValue(new Promise(resolve => (answer = resolve)));
    view.compareWith('older');
    await waitForRender();
    expect(select().selectedOptions[0].textContent).toBe('older');
    expect(shown()[0].textContent).not.toContain('No differences.');
    const found = { sentence: 'A lot.', code: [], changes: [], unknown: [] };
    answer({ ...found, before: 'digits-older', after: 'train-digits-0' });
    await waitForRender();
    expect(select().value).toBe('older');
    expect(select().selectedOptions[0].textContent).toBe('digits-older');
  });

  it('says why two jobs could not be compared', async () => {
    await waitForRender();
    answers.difference.mockRejectedValue(new ApiError(404, '', 'There is no run of it before.'));
    view.compareWith('');
    await waitForRender();
    expect(shown()[0].textContent).toContain('There is no run of it before.');
  });

  it('looks at the cell when the code is shown, and after each edit while it is', async () => {
    await waitForRender();
    expect(answers.cell).not.toHaveBeenCalled();
    const edited = new Signal<object, void>({});
    origin = { ...(origin as ICurrentCode), edited };
    view.openSection('code');
    await waitForRender();
    expect(shown()[0].textContent).toContain('has not changed since the job ran');
    fakeTimeouts();
    origin = { text: '%%train\nx = 2\nprint(x)', path: 'a.ipynb', edited };
    edited.emit();
    jest.advanceTimersByTime(EDIT_MS - 1);
    expect(answers.cell).toHaveBeenCalledTimes(1);
    jest.advanceTimersByTime(1);
    await waitForRender();
    expect(answers.cell).toHaveBeenCalledTimes(2);
    expect(shown()[0].textContent).toContain('+x = 2');
    view.openSection('log');
    await waitForRender();
    edited.emit();
    jest.advanceTimersByTime(EDIT_MS);
    await waitForRender();
    expect(answers.cell).toHaveBeenCalledTimes(2);
  });

  it('does not look for the cell of code that a program handed in', async () => {
    await waitForRender();
    answers.record.mockResolvedValue(record({ spec: { ...SPEC, source: 'x = 1' } }));
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 2).state);
    await waitForRender();
    view.openSection('code');
    await waitForRender();
    expect(answers.cell).not.toHaveBeenCalled();
    expect(shown()[0].textContent).toContain('submitted by a program');
  });
});
