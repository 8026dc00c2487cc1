import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../../commands/commandIds';
import { formatMoment } from '../../format/numbers';
import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { JobsPanel } from '../../sidebar/jobsPanel';
import {
  applyArrayCounts,
  applyControllerStopped,
  applyListing,
  EMPTY_STATE
} from '../../state/state';
import { IMAGE_SETTINGS } from '../fixtures/jobRecords';
import { arraySummary, arrayTask, completed, job, pool } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

const halfway = job(0, {
  progress: { fraction: 0.745, text: 'epoch 7/10', remaining_seconds: 46, at: 1134 },
  metrics: { loss: 0.21341, acc: null },
  expectation: { seconds: 176, low: 170, high: 190, basis: 'history', runs: 4 }
});

beforeAll(layOut);

describe('the panel', () => {
  let model: FakeModel;
  let panel: JobsPanel;
  let executed: [string, unknown][];

  beforeEach(() => {
    model = new FakeModel();
    const { commands, executed: list } = fakeCommands();
    executed = list;
    panel = new JobsPanel({ model, commands, trans });
    Widget.attach(panel, document.body);
  });

  afterEach(() => panel.dispose());

  it('lists running jobs, pools with their countdown, and finished jobs', async () => {
    model.become(
      applyListing(EMPTY_STATE, [job(0), completed(1)], [pool(1, { expires_at: 1606 })], 1).state
    );
    await waitForRender();
    const text = panel.node.textContent ?? '';
    expect(text).toContain('train-digits-0');
    expect(text).toContain('02:14');
    expect(text).toContain('07:52');
    expect(text).toContain('expires in 7 minutes 52 seconds');
    expect(text).toContain('took 1 minute 40 seconds');
    expect(panel.node.querySelector('[role=status]')?.textContent).toBe('1 running · 1 warm');
  });

  it('names the image that hosts are made of, of a job and of a pool', async () => {
    const image = {
      ...IMAGE_SETTINGS,
      name: 'hub/train:1',
      id: 'sha256:3fa85f6457170000',
      digest: ''
    };
    const pools = [pool(1, { engine: 'docker', image })];
    model.become(applyListing(EMPTY_STATE, [job(0, { image })], pools, 1).state);
    await waitForRender();
    for (const row of ['[data-job]', '[data-pool]']) {
      const text = panel.node.querySelector(row)?.textContent ?? '';
      expect(text).toContain('train:1 (3fa85f645717)');
      expect(text).not.toContain('hub');
    }
    button(panel.node, 'Open a shell on a host of pool local-1').click();
    expect(executed).toEqual([[CommandIDs.openPoolShell, 'pool-1']]);
  });

  it('says how old its lists are, by the clock of the server', async () => {
    const failure = {
      kind: 'lost',
      status: 0,
      message: 'Nobody answers.',
      retryAfter: 0
    } as const;
    model.become({ ...EMPTY_STATE, connectionStatus: 'failing', failure, lastResponseAt: 1100 });
    await waitForRender();
    const words = panel.node.querySelector('[role=alert]')?.textContent ?? '';
    // By the clock of this browser it was years ago, and the text would have a date.
    expect(words).toContain(formatMoment(1_100, 1_100));
    expect(words).not.toContain(formatMoment(1_100).slice(0, 10));
  });

  it('draws the progress of a job, with its number and words, and once for screen readers', async () => {
    model.become(applyListing(EMPTY_STATE, [halfway], [], 1).state);
    await waitForRender();
    const bar = panel.node.querySelector('[role=progressbar]');
    expect(bar?.getAttribute('aria-valuenow')).toBe('74');
    expect(bar?.getAttribute('aria-valuetext')).toBe('74 %, epoch 7/10');
    expect(bar?.getAttribute('aria-label')).toBe('Progress of train-digits-0');
    expect(panel.node.querySelector('.jp-smx-progress-number')?.textContent).toBe('74 %');
    expect(panel.node.textContent).toContain('02:14');
    expect(panel.node.textContent).toContain('of ~3 min');
    expect(panel.node.textContent).toContain('loss 0.2134 · acc nan');
    // Progress changes every second; a screen reader must not read each change.
    expect(bar?.closest('[aria-live]')).toBeNull();
  });

  it('shows the words alone of a job without a known end, and no bar without progress', async () => {
    const open = job(0, {
      progress: { fraction: null, text: 'round 12', remaining_seconds: null, at: 1 }
    });
    model.become(applyListing(EMPTY_STATE, [open, job(1)], [], 1).state);
    await waitForRender();
    expect(panel.node.querySelector('[role=progressbar]')).toBeNull();
    expect(panel.node.textContent).toContain('round 12');
    expect(panel.node.textContent).not.toContain('of ~');
  });

  it('says when a waiting job will begin, and what a finished one measured', async () => {
    const waiting = job(0, {
      secondary_status: 'Pending',
      queue_position: 2,
      expected_start_at: 1174
    });
    const done = completed(1, { metrics: { acc: 0.97 }, progress: halfway.progress });
    model.become(applyListing(EMPTY_STATE, [waiting, done], [], 1).state);
    await waitForRender();
    expect(panel.node.textContent).toContain('Queued, position 2 · starts in ~40 s');
    expect(panel.node.textContent).toContain('acc 0.97');
    expect(panel.node.querySelector('[role=progressbar]')).toBeNull();
  });

  it('shows the progress of a download, and nothing for a step that goes as expected', async () => {
    const secondary_status = 'Downloading';
    const message = 'Downloading the image train:1: 3 of 7 layers, 114 of 458 MiB.';
    const copying = job(1, { secondary_status, message: 'Copying the input channels.' });
    const jobs = [job(0, { secondary_status, message }), copying];
    model.become(applyListing(EMPTY_STATE, jobs, [], 1).state);
    await waitForRender();
    const said = [...panel.node.querySelectorAll('.jp-smx-says')].map(one => one.textContent);
    expect(said).toEqual([message]);
  });

  it('says why hosts wait at the scheduler of their engine, and when the job will begin', async () => {
    const message =
      'Waiting at the engine slurm: Resources, position 3, expected to start at 14:05.';
    const waiting = job(0, { secondary_status: 'Starting', message, expected_start_at: 1174 });
    model.become(applyListing(EMPTY_STATE, [waiting], [], 1).state);
    await waitForRender();
    const said = [...panel.node.querySelectorAll('.jp-smx-says')].map(one => one.textContent);
    expect(said).toEqual([message]);
    expect(panel.node.textContent).toContain('starts in ~40 s');
  });

  it('says how to start a job and how to keep a pool when there is none', async () => {
    model.become(applyListing(EMPTY_STATE, [], [], 1).state);
    await waitForRender();
    expect(panel.node.textContent).toContain('To start one, add %%train at the top of a cell.');
    expect(panel.node.textContent).toContain('To keep one after a job, add --keep-alive 10m.');
    const [option] = panel.node.querySelectorAll('.jp-smx-empty .jp-smx-word');
    expect(option.textContent).toBe('--keep-alive 10m');
  });

  it('has a button for each action, whose name includes the item', async () => {
    model.become(applyListing(EMPTY_STATE, [job(0)], [pool(1)], 1).state);
    await waitForRender();
    button(panel.node, 'Stop train-digits-0').click();
    button(panel.node, 'Extend pool local-1 by 15 minutes').click();
    button(panel.node, 'Release pool local-1').click();
    expect(executed).toEqual([
      [CommandIDs.stopJob, 'job-0'],
      [CommandIDs.extendPool, 'pool-1'],
      [CommandIDs.releasePool, 'pool-1']
    ]);
  });

  it('leaves the focus on a button whose action ran, and does not run it again', async () => {
    model.become(applyListing(EMPTY_STATE, [job(0, { status: 'Stopping' })], [], 1).state);
    await waitForRender();
    const stop = button(panel.node, 'Stop train-digits-0');
    // A browser moves the focus away from a button that becomes disabled.
    expect([stop.disabled, stop.getAttribute('aria-disabled')]).toEqual([false, 'true']);
    stop.click();
    expect(executed).toEqual([]);
  });

  it('offers no extension while a job uses the pool', async () => {
    model.become(
      applyListing(EMPTY_STATE, [], [pool(1, { expires_at: null, state: 'InUse' })], 1).state
    );
    await waitForRender();
    expect(panel.node.textContent).toContain('In use');
    expect(panel.node.querySelectorAll('[role=timer]')).toHaveLength(0);
    expect(panel.node.textContent).not.toContain('+15 min');
  });

  it('says what to do when the server half is missing', async () => {
    model.become({ ...EMPTY_STATE, connectionStatus: 'missing' });
    await waitForRender();
    const alert = panel.node.querySelector('[role=alert]');
    expect(alert?.textContent).toContain('pip install jupyter-smx');
    expect(alert?.textContent).toContain('jupyter server extension list');
    button(panel.node, 'Check again').click();
    expect(executed).toEqual([[CommandIDs.refresh, undefined]]);
  });

  it('does not show jobs of an exited controller as running', async () => {
    const known = applyListing(EMPTY_STATE, [job(0), completed(1)], [pool(1)], 1).state;
    model.become(applyControllerStopped(known).state);
    await waitForRender();
    expect(panel.node.textContent).not.toContain('train-digits-0');
    expect(panel.node.textContent).toContain('No warm pools.');
    expect(panel.node.textContent).toContain('train-digits-1');
    const task = completed(2, { array: arrayTask(0, 2) });
    const array = applyArrayCounts(applyListing(EMPTY_STATE, [task], [], 1).state, [
      arraySummary({ running: 1 })
    ]);
    model.become(applyControllerStopped(array).state);
    await waitForRender();
    expect(panel.node.querySelector('ul[aria-label="Running jobs"]')).toBeNull();
    expect(panel.node.textContent).toContain('1 completed of 2 tasks');
    const problem = { kind: 'refused', status: 503, message: 'no', retryAfter: 0 } as const;
    model.become(applyControllerStopped(known, problem).state);
    await waitForRender();
    expect(panel.node.textContent).toContain('train-digits-0');
  });

  it('can start the controller if none runs', async () => {
    model.become({ ...EMPTY_STATE, connectionStatus: 'asleep' });
    await waitForRender();
    button(panel.node, 'Show earlier jobs').click();
    expect(executed).toEqual([[CommandIDs.wake, undefined]]);
  });
});

describe('the card', () => {
  async function card(model: FakeModel, data: unknown): Promise<CardRenderer> {
    const { commands } = fakeCommands();
    const renderer = new CardRenderer(model, commands, trans);
    Widget.attach(renderer, document.body);
    const mime = { [CARD_MIME_TYPE]: data };
    await renderer.renderModel({
      trusted: false,
      data: mime,
      metadata: {},
      setData: jest.fn()
    } as never);
    await waitForRender();
    return renderer;
  }

  const saved = { id: 'job-0', name: 'train-digits-0', summary: { ...job(0) } };

  it('is live if the model has the job, whatever the notebook says', async () => {
    const model = new FakeModel();
    model.become(applyListing(EMPTY_STATE, [completed(0)], [], 1).state);
    const renderer = await card(model, saved);
    expect(renderer.node.textContent).toContain('Completed');
    renderer.dispose();
  });

  it('follows the job', async () => {
    const model = new FakeModel();
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 1).state);
    const renderer = await card(model, saved);
    const stop = button(renderer.node, 'Stop train-digits-0');
    expect(stop.getAttribute('aria-disabled')).toBe('false');
    model.become(applyListing(EMPTY_STATE, [completed(0)], [], 2).state);
    await waitForRender();
    expect(renderer.node.textContent).toContain('Completed');
    expect(() => button(renderer.node, 'Stop train-digits-0')).toThrow('There is no button');
    renderer.dispose();
  });

  it('moves the focus from a button that goes away to the one in its place', async () => {
    const model = new FakeModel();
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 1).state);
    const renderer = await card(model, saved);
    button(renderer.node, 'Stop train-digits-0').focus();
    model.become(applyListing(EMPTY_STATE, [completed(0)], [], 2).state);
    await waitForRender();
    expect(document.activeElement).toBe(button(renderer.node, 'Rerun train-digits-0'));
    renderer.dispose();
  });

  it('says why a job failed without an exception in the code of the user', async () => {
    const model = new FakeModel();
    const message = 'ClientError: channel train: there is no such file.';
    const failed = completed(0, { status: 'Failed', secondary_status: 'Failed', message });
    model.become(applyListing(EMPTY_STATE, [failed], [], 1).state);
    const renderer = await card(model, saved);
    expect(renderer.node.textContent).toContain(message);
    expect(renderer.node.textContent).toContain('Failed: ClientError');
    renderer.dispose();
  });

  it('says why a job waits, and no longer when that is over', async () => {
    const model = new FakeModel();
    const message = 'Its hosts are not reachable since 14:05: Host algo-1 is paused. Let it go on.';
    model.become(applyListing(EMPTY_STATE, [job(0, { message })], [], 1).state);
    const renderer = await card(model, saved);
    expect(renderer.node.textContent).toContain(message);
    model.become(
      applyListing(EMPTY_STATE, [job(0, { message: 'Running the code.' })], [], 2).state
    );
    await waitForRender();
    expect(renderer.node.querySelector('.jp-smx-says')).toBeNull();
    renderer.dispose();
  });

  it('falls back to the snapshot, says so, and offers no action that cannot work', async () => {
    const renderer = await card(new FakeModel(), saved);
    expect(renderer.node.textContent).toContain('as of the last save of the notebook');
    expect(renderer.node.querySelector('button')).toBeNull();
    renderer.dispose();
  });

  it('reads the step of a waiting job aloud, and not its decreasing wait', async () => {
    const model = new FakeModel();
    const wait = {
      secondary_status: 'Pending',
      queue_position: 2,
      expected_start_at: 1174
    } as const;
    model.become(applyListing(EMPTY_STATE, [job(0, wait)], [], 1).state);
    const renderer = await card(model, saved);
    expect(renderer.node.textContent).toContain('starts in ~40 s');
    const aloud = renderer.node.querySelector('[role=status]');
    expect(aloud?.textContent).toBe('Queued, position 2 · local × 1');
    renderer.dispose();
  });

  it('shows progress and metrics, live and saved', async () => {
    const model = new FakeModel();
    model.become(applyListing(EMPTY_STATE, [halfway], [], 1).state);
    const live = await card(model, saved);
    expect(live.node.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow')).toBe('74');
    expect(live.node.textContent).toContain('of ~3 min');
    expect(live.node.textContent).toContain('loss 0.2134');
    live.dispose();
    const old = await card(new FakeModel(), { ...saved, summary: halfway });
    expect(old.node.textContent).toContain('epoch 7/10');
    expect(old.node.textContent).not.toContain('of ~3 min');
    old.dispose();
  });

  it('reads cards of older versions and of hostile notebooks', async () => {
    const { progress, metrics, expectation, expected_start_at, ...older } = halfway;
    expect([progress, metrics, expectation, expected_start_at]).toHaveLength(4);
    const broken = {
      ...older,
      progress: { text: 3 },
      metrics: { loss: '<b>', acc: 1 },
      expectation: 'x'
    };
    for (const summary of [older, broken, { ...older, metrics: 'abc', progress: [] }]) {
      const renderer = await card(new FakeModel(), { ...saved, summary });
      expect(renderer.node.textContent).toContain('train-digits-0');
      expect(renderer.node.querySelector('b')).toBeNull();
      renderer.dispose();
    }
  });

  it('shows a hostile name as text', async () => {
    const name = '<img src=x onerror=alert(1)>';
    const renderer = await card(new FakeModel(), { id: 'x', name, summary: null });
    expect(renderer.node.textContent).toContain(name);
    expect(renderer.node.querySelector('img')).toBeNull();
    renderer.dispose();
  });

  it('has only the data of the notebook for a job whose controller has exited', async () => {
    const model = new FakeModel();
    model.become(applyControllerStopped(applyListing(EMPTY_STATE, [job(0)], [], 1).state).state);
    const renderer = await card(model, saved);
    expect(renderer.node.textContent).toContain('as of the last save of the notebook');
    model.become(
      applyControllerStopped(applyListing(EMPTY_STATE, [completed(0)], [], 1).state).state
    );
    await waitForRender();
    expect(renderer.node.textContent).toContain('Completed');
    renderer.dispose();
  });

  it('says that it cannot be read', async () => {
    const renderer = await card(new FakeModel(), { id: 3 });
    expect(renderer.node.textContent).toContain('Cannot show this card');
    renderer.dispose();
  });
});
