import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { ApiError } from '../../api/errors';
import { createLogFailure, LogView } from '../../log';
import type { ISearchResult } from '../../log/logSource';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed } from '../fixtures/examples';
import { FakeLog } from '../fixtures/fakeLog';
import { button, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

beforeAll(layOut);

describe('the view of a log', () => {
  let log: FakeLog;
  let view: LogView;
  const startController = jest.fn(() => Promise.resolve());

  beforeEach(() => {
    log = new FakeLog('loss 2\n 10% loss 1');
    const trans = nullTranslator.load('jupyter_smx');
    view = new LogView({ source: log, name: 'digits', page: document, trans, startController });
  });

  afterEach(() => view.dispose());

  async function shown(): Promise<void> {
    Widget.attach(view, document.body);
    await waitForRender();
  }

  /** Wait for what comes after a pause of the view. */
  async function become(isSo: () => boolean): Promise<void> {
    for (let i = 0; i < 100 && !isSo(); i++) {
      await waitForRender();
    }
    expect(isSo()).toBe(true);
  }

  const pressed = (name: string): string | null =>
    button(view.node, name).getAttribute('aria-pressed');
  const count = (): string => view.node.querySelector('.jp-smx-log-count')?.textContent ?? '';

  async function find(words: string): Promise<void> {
    const field = view.node.querySelector('input') as HTMLInputElement;
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set;
    set?.call(field, words);
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await become(() => count() !== '');
  }

  it('says at its end why the job failed, and not before', async () => {
    view.dispose();
    const trans = nullTranslator.load('jupyter_smx');
    const message = "AlgorithmError: KeyError: 'x'";
    const verdict = { status: 'Failed', failure_type: 'KeyError', failure_line: 2 } as const;
    const model = new FakeModel();
    const failure = createLogFailure(model, 'job-0', trans);
    view = new LogView({ source: log, name: 'digits', page: document, trans, failure });
    await shown();
    const reason = (): Element | null => view.node.querySelector('.jp-smx-failure');
    expect(reason()).toBeNull();
    const summary = completed(0, { ...verdict, message });
    model.become(applyListing(EMPTY_STATE, [summary], [], 1).state);
    await waitForRender();
    expect(reason()).toBeNull();
    log.end();
    await become(() => reason() !== null);
    expect(reason()?.textContent).toBe("Failed: KeyError, line 2'x'");
    // What else changes in the model changes nothing here.
    const update = jest.spyOn(view, 'update');
    model.become({ ...model.state, seq: 2 });
    expect(update).not.toHaveBeenCalled();
  });

  it('goes to what is looked for, and not again where that is drawn anew', async () => {
    await shown();
    await find('loss');
    expect([count(), pressed('Follow')]).toEqual(['2 of 2', 'false']);
    button(view.node, 'Follow').click();
    await waitForRender();
    log.grow('\r 11% loss 1');
    await become(() => log.searched.length > 1);
    await waitForRender();
    expect([count(), pressed('Follow')]).toEqual(['2 of 2', 'true']);
    button(view.node, 'Previous match').click();
    await waitForRender();
    expect([count(), pressed('Follow')]).toEqual(['1 of 2', 'false']);
  });

  it('follows on where nothing has the words, also when something has later', async () => {
    await shown();
    await find('epoch');
    expect(count()).toBe('No matches');
    log.grow('\nepoch 1');
    await become(() => count() === '1 of 1');
    expect(pressed('Follow')).toBe('true');
  });

  it('looks again after trouble when one asks for the next line', async () => {
    await shown();
    jest.spyOn(log, 'find').mockRejectedValueOnce(new ApiError(502, '', 'Bad Gateway'));
    await find('loss');
    expect(count()).toBe('Search stopped: Bad Gateway');
    expect(view.node.querySelector('.jp-smx-spoken')?.textContent).toBe(
      'Search stopped: Bad Gateway'
    );
    button(view.node, 'Next match').click();
    await become(() => count() === '2 of 2');
    expect(pressed('Follow')).toBe('false');
  });

  it('goes to nothing that is found in the log before where one chooses another', async () => {
    log.hosts = ['algo-1', 'algo-2'];
    await shown();
    let answer: (found: ISearchResult) => void = () => undefined;
    jest.spyOn(log, 'find').mockReturnValueOnce(new Promise(resolve => (answer = resolve)));
    await find('loss');
    jest.spyOn(log, 'read').mockReturnValue(new Promise(() => undefined));
    const select = view.node.querySelector('select') as HTMLSelectElement;
    select.value = 'algo-2';
    select.dispatchEvent(new Event('change', { bubbles: true }));
    answer({ places: [0], reached: 0, total: 18 });
    await waitForRender();
    expect(pressed('Follow')).toBe('true');
  });

  it('leaves the focus where one chooses another log', async () => {
    log.hosts = ['algo-1', 'algo-2'];
    await shown();
    const select = view.node.querySelector('select') as HTMLSelectElement;
    select.focus();
    const read = jest.spyOn(log, 'read').mockReturnValue(new Promise(() => undefined));
    select.value = 'algo-2';
    select.dispatchEvent(new Event('change', { bubbles: true }));
    view.update();
    await waitForRender();
    expect(document.activeElement).toBe(select);
    expect([select.isConnected, select.value]).toEqual([true, 'algo-2']);
    expect(read.mock.calls[0][0].host).toBe('algo-2');
  });

  it('starts the controller where none runs, and then reads', async () => {
    log.errors = [new ApiError(503, 'ServiceUnavailable', 'No controller runs.')];
    await shown();
    const alert = (): Element | null => view.node.querySelector('[role=alert]');
    await become(() => alert() !== null);
    expect(alert()?.textContent).toContain('No controller runs.');
    button(view.node, 'Start the controller').click();
    await become(() => alert() === null);
    expect(startController).toHaveBeenCalledTimes(1);
  });
});
