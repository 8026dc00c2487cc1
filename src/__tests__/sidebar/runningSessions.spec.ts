import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../../commands/commandIds';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { runningManager } from '../../sidebar/runningSessions';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { StatusItem } from '../../widgets/statusItem';
import { completed, job, pool } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');
const busy = pool(2, { expires_at: null, state: 'InUse', name: 'local-2' });
const state = applyListing(EMPTY_STATE, [job(0), completed(1)], [pool(1), busy], 1).state;

beforeAll(layOut);

describe("Lab's list of what runs", () => {
  it('has the jobs without a verdict and the pools that can be released', () => {
    const model = new FakeModel();
    model.become(state);
    const { commands } = fakeCommands();
    const items = runningManager(model, commands, trans).running({ mode: 'list' });
    expect(items.map(item => item.label())).toEqual(['train-digits-0', 'Pool local-1']);
    expect(items[0].detail?.()).toBe('Training');
  });

  it('stops and releases by the commands, which ask where that is due', () => {
    const model = new FakeModel();
    model.become(state);
    const { commands, executed } = fakeCommands();
    for (const item of runningManager(model, commands, trans).running({ mode: 'list' })) {
      item.shutdown?.();
      item.open?.();
    }
    expect(executed).toEqual([
      [CommandIDs.stopJob, 'job-0'],
      [CommandIDs.openPanel, undefined],
      [CommandIDs.releasePool, 'pool-1'],
      [CommandIDs.openPanel, undefined]
    ]);
    expect(model.stop).not.toHaveBeenCalled();
  });

  it('ends everything that it shows at once, and lists again although one refuses', async () => {
    const model = new FakeModel();
    model.become(state);
    model.stop.mockRejectedValue(new Error('no'));
    runningManager(model, fakeCommands().commands, trans).shutdownAll();
    await waitForRender();
    expect(model.stop).toHaveBeenCalledWith(job(0));
    expect(model.release.mock.calls).toEqual([[pool(1)]]);
    expect(model.refresh).toHaveBeenCalledTimes(1);
  });
});

describe('the status bar', () => {
  it('sums up, follows, and opens the panel', async () => {
    const model = new FakeModel();
    const { commands, executed } = fakeCommands();
    const item = new StatusItem(model, commands, trans);
    Widget.attach(item, document.body);
    await waitForRender();
    expect(item.node.textContent).toBe('');
    model.become(state);
    await waitForRender();
    expect(item.node.textContent).toBe('1 running · 1 warm');
    button(item.node, 'Jobs and pools: 1 running · 1 warm').click();
    expect(executed).toEqual([[CommandIDs.openPanel, undefined]]);
    item.dispose();
  });
});

describe('the sections', () => {
  it('are open as it is set', () => {
    const options = { model: new FakeModel(), commands: fakeCommands().commands, trans };
    const panel = new JobsPanel(options);
    Widget.attach(panel, document.body);
    const open = (): (string | null)[] =>
      [...panel.node.querySelectorAll('h3')].map(title => title.getAttribute('aria-expanded'));
    panel.unfold(['finished']);
    expect(open()).toEqual(['false', 'false', 'true']);
    panel.unfold(['running', 'pools']);
    expect(open()).toEqual(['true', 'true', 'false']);
    panel.dispose();
  });
});
