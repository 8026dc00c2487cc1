import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../../commands/commandIds';
import { addModelCommands } from '../../commands/modelCommands';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { rowCommands } from '../../sidebar/rowMenu';
import { applyFailure } from '../../state/connectionState';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { arrayTask, completed, job, pool } from '../fixtures/examples';
import { fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const [DOWN, ENTER] = [{ keyCode: 40 }, { keyCode: 13 }];
const ENTRIES = '.lm-Menu-item[data-type="command"]';
const trans = nullTranslator.load('jupyter_smx');
const state = applyListing(
  EMPTY_STATE,
  [job(0), completed(1)],
  [
    pool(1, { expires_at: 1606 }),
    pool(2, { expires_at: null, state: 'InUse' }),
    pool(3, { expires_at: null, state: 'Provisioning' })
  ],
  1
).state;

beforeAll(layOut);

describe('the commands for a row', () => {
  it('are those that its job, array or pool can take', () => {
    expect(rowCommands({ job: 'job-0' }, state).flat()).toContain(CommandIDs.stopJob);
    expect(rowCommands({ job: 'job-0' }, state).flat()).not.toContain(CommandIDs.deleteJob);
    expect(rowCommands({ job: 'job-1' }, state).flat()).toEqual(
      expect.arrayContaining([CommandIDs.rerunJob, CommandIDs.compareJobs, CommandIDs.deleteJob])
    );
    expect(rowCommands({ job: 'job-1' }, state).flat()).not.toContain(CommandIDs.stopJob);
    expect(rowCommands({ job: 'job-0' }, state).flat()).not.toContain(CommandIDs.interruptJob);
    expect(rowCommands({ array: 'a1', status: 'InProgress' }, state)).toEqual([
      [CommandIDs.stopArray]
    ]);
    expect(rowCommands({ array: 'a1', status: 'Failed' }, state)).toEqual([
      [CommandIDs.deleteArray]
    ]);
    expect(rowCommands({ pool: 'pool-1' }, state)).toEqual([
      [CommandIDs.openPoolShell],
      [CommandIDs.extendPool, CommandIDs.releasePool]
    ]);
    expect(rowCommands({ pool: 'pool-2' }, state)).toEqual([[CommandIDs.openPoolShell]]);
    expect(rowCommands({ pool: 'pool-3' }, state)).toEqual([]);
    expect(rowCommands({ job: 'gone' }, state)).toEqual([]);
  });
});

describe('a spot job', () => {
  it.each([
    ['Downloading', true],
    ['Training', true],
    ['Starting', false],
    ['Interrupted', false],
    ['Stopping', false],
    ['Uploading', false]
  ] as const)('that is %s can be interrupted: %s', (secondary_status, can) => {
    const spots = applyListing(
      EMPTY_STATE,
      [job(0, { spot: true, secondary_status })],
      [],
      1
    ).state;
    const commands = rowCommands({ job: 'job-0' }, spots).flat();
    expect(commands.includes(CommandIDs.interruptJob)).toBe(can);
  });
});

describe('a shell', () => {
  it.each([
    [job(0, { secondary_status: 'Downloading' }), true],
    [job(0, { secondary_status: 'Downloading', start: 'none' }), false],
    [job(0), true],
    [job(0, { secondary_status: 'Pending' }), false],
    [job(0, { secondary_status: 'Starting' }), false],
    [completed(0, { warm_pool_status: 'Available' }), true],
    [completed(0, { warm_pool_status: 'Reused' }), false],
    [completed(0), false]
  ])('is offered where hosts are there: %#', (one, can) => {
    const commands = rowCommands(
      { job: 'job-0' },
      applyListing(EMPTY_STATE, [one], [], 1).state
    ).flat();
    expect(commands.includes(CommandIDs.openShell)).toBe(can);
  });
});

describe('the menu of a row', () => {
  function opened(panel: JobsPanel, selector: string): MouseEvent {
    const event = new MouseEvent('contextmenu', { bubbles: true, cancelable: true });
    panel.node.querySelector(selector)?.dispatchEvent(event);
    return event;
  }

  it('does to the job of the row what is chosen, and leaves out what was switched off', async () => {
    const model = new FakeModel();
    model.state = state;
    const { commands, executed } = fakeCommands([CommandIDs.openCharts]);
    const panel = new JobsPanel({ model, commands, trans });
    Widget.attach(panel, document.body);
    await waitForRender();
    const event = opened(panel, '[data-job="job-1"] .jp-smx-name');
    await waitForRender();
    expect(event.defaultPrevented).toBe(true);
    const entries = document.querySelectorAll<HTMLElement>(ENTRIES);
    expect([...entries].map(one => one.dataset.command)).toEqual([
      CommandIDs.openJob,
      CommandIDs.openLog,
      CommandIDs.rerunJob,
      CommandIDs.compareJobs,
      CommandIDs.deleteJob
    ]);
    const menu = document.querySelector('.lm-Menu');
    for (const key of [DOWN, DOWN, DOWN, ENTER]) {
      menu?.dispatchEvent(new KeyboardEvent('keydown', { ...key, bubbles: true }));
    }
    expect(executed).toEqual([[CommandIDs.rerunJob, 'job-1']]);
    panel.dispose();
    expect(document.querySelector('.lm-Menu')).toBeNull();
  });

  it('deletes of an array what the filter shows, as its button does', async () => {
    const model = new FakeModel();
    const tasks = [0, 1].map(index => completed(index, { array: arrayTask(index, 2) }));
    model.state = applyListing(EMPTY_STATE, tasks, [], 1).state;
    const commands = new CommandRegistry();
    const execute = jest.fn();
    commands.addCommand(CommandIDs.deleteArray, {
      describedBy: { args: { type: 'object' } },
      execute
    });
    const panel = new JobsPanel({ model, commands, trans });
    Widget.attach(panel, document.body);
    await waitForRender();
    const field = panel.node.querySelector('input') as HTMLInputElement;
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(
      field,
      'digits-1'
    );
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await waitForRender();
    opened(panel, '[data-array="a1"] .jp-smx-name');
    await waitForRender();
    for (const key of [DOWN, ENTER]) {
      const event = new KeyboardEvent('keydown', { ...key, bubbles: true });
      document.querySelector('.lm-Menu')?.dispatchEvent(event);
    }
    expect(execute).toHaveBeenCalledWith({ id: 'a1', filter: 'digits-1' });
    panel.dispose();
  });

  const silence = { kind: 'lost', status: 0, message: '', retryAfter: 0 } as const;
  const lost = applyFailure({ ...state, lastResponseAt: 1134 }, silence);

  it('is disabled without the server where buttons are, and opens views all the same', async () => {
    const model = new FakeModel();
    model.state = lost;
    const commands = new CommandRegistry();
    addModelCommands(commands, model, trans);
    commands.addCommand(CommandIDs.openJob, {
      describedBy: { args: { type: 'object' } },
      execute: () => undefined
    });
    const panel = new JobsPanel({ model, commands, trans });
    Widget.attach(panel, document.body);
    await waitForRender();
    opened(panel, '[data-job="job-1"] .jp-smx-name');
    await waitForRender();
    const entries = [...document.querySelectorAll<HTMLElement>(ENTRIES)];
    const disabled = entries.filter(one => one.classList.contains('lm-mod-disabled'));
    expect(disabled.map(one => one.dataset.command)).toEqual([
      CommandIDs.rerunJob,
      CommandIDs.deleteJob
    ]);
    expect(entries.map(one => one.dataset.command)).toContain(CommandIDs.openJob);
    panel.dispose();
  });

  it('is drawn again when the server is lost or found, and not with each change', () => {
    const model = new FakeModel();
    model.state = state;
    const commands = new CommandRegistry();
    const added = addModelCommands(commands, model, trans);
    const told: (string | undefined)[] = [];
    commands.commandChanged.connect((_, { id }) => told.push(id));
    model.become({ ...state, seq: 2 });
    expect(told).toEqual([]);
    model.become(lost);
    expect(told).toContain(CommandIDs.stopJob);
    expect(told).not.toContain(CommandIDs.refresh);
    expect(commands.isEnabled(CommandIDs.releasePool)).toBe(false);
    model.become(state);
    expect(commands.isEnabled(CommandIDs.releasePool)).toBe(true);
    added.dispose();
    told.length = 0;
    model.become(lost);
    expect(told).toEqual([]);
  });

  it('is not there beside the rows', async () => {
    const model = new FakeModel();
    model.state = state;
    const panel = new JobsPanel({ model, commands: fakeCommands().commands, trans });
    Widget.attach(panel, document.body);
    await waitForRender();
    expect(opened(panel, '.jp-smx-section').defaultPrevented).toBe(false);
    panel.dispose();
  });
});
