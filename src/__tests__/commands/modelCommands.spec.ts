import { Dialog, Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { addModelCommands } from '../../commands/modelCommands';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { applyArrayCounts, applyListing, EMPTY_STATE } from '../../state/state';
import { arraySummary, arrayTask, completed } from '../fixtures/examples';
import { button, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

const over = (index: number, fields: Partial<JobSummary> = {}): JobSummary =>
  completed(100 + index, { array: arrayTask(index, 12), ...fields });

beforeAll(layOut);

describe('the commands', () => {
  let model: FakeModel;
  let commands: CommandRegistry;
  let panel: JobsPanel;

  beforeEach(() => {
    model = new FakeModel();
    commands = new CommandRegistry();
    addModelCommands(commands, model, trans);
    panel = new JobsPanel({ model, commands, trans });
    Widget.attach(panel, document.body);
  });

  afterEach(() => {
    Dialog.flush();
    panel.dispose();
    Notification.manager.dismiss();
  });

  async function become(
    jobs: JobSummary[],
    counts: Parameters<typeof arraySummary>[0] = {}
  ): Promise<void> {
    const arrays = jobs.some(one => one.array) ? [arraySummary(counts)] : [];
    model.become(applyArrayCounts(applyListing(EMPTY_STATE, jobs, [], 1).state, arrays));
    await waitForRender();
  }

  async function type(text: string): Promise<void> {
    const field = panel.node.querySelector('input[type=search]') as HTMLInputElement;
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set;
    set?.call(field, text);
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await waitForRender();
  }

  /** Press a button of the question, and give what the question is. */
  async function answer(label: string): Promise<string> {
    await waitForRender();
    const text = document.querySelector('.jp-Dialog')?.textContent ?? '';
    button(document.querySelector('.jp-Dialog') as HTMLElement, label).click();
    await waitForRender();
    return text;
  }

  const removed = (): string[] => model.remove.mock.calls.map(([{ id }]) => id);

  it('clear what is listed as finished, and no task of an array that runs', async () => {
    await become([over(0), completed(1)], { completed: 1, pending: 11 });
    void commands.execute(CommandIDs.clearFinished);
    expect(await answer('Delete')).toContain('Delete 1 finished job?');
    expect(removed()).toEqual(['job-1']);
  });

  it('clear what the filter shows', async () => {
    await become([completed(1), completed(2)]);
    void commands.execute(CommandIDs.clearFinished, { filter: 'DIGITS-2' });
    await answer('Delete');
    expect(removed()).toEqual(['job-2']);
  });

  it('delete of an array that is over the tasks that the filter shows', async () => {
    await become([over(0), over(1, { status: 'Failed', failure_type: 'KeyError' })], {
      completed: 11,
      failed: 1
    });
    await type('keyerror');
    button(panel.node, 'Delete the listed tasks of train-a1').click();
    expect(await answer('Delete')).toContain('Delete 1 task of train-a1?');
    expect(removed()).toEqual(['job-101']);
  });

  it('delete all of its tasks where nothing is filtered', async () => {
    await become([over(0), over(1)], { completed: 12 });
    button(panel.node, 'Delete the listed tasks of train-a1').click();
    await answer('Delete');
    expect(removed()).toEqual(['job-100', 'job-101']);
  });

  it('say of the tasks of an array what a stop does to them, however many they are', async () => {
    await become([over(0, { status: 'InProgress', secondary_status: 'Training' })], { running: 1 });
    void commands.execute(CommandIDs.stopArray, { id: 'a1' });
    expect(await answer('Cancel')).toContain(
      'Running tasks (1) will be stopped, and waiting tasks (0) will not start.'
    );
  });

  it('run the failed tasks of an array again, one after the other, until one is refused', async () => {
    const failed = { status: 'Failed', secondary_status: 'Failed' } as const;
    await become([over(0), over(1, failed), over(2, failed)], { completed: 10, failed: 2 });
    void commands.execute(CommandIDs.rerunFailedTasks, { id: 'a1' });
    expect(await answer('Rerun')).toContain('Rerun 2 failed tasks of train-a1?');
    expect(model.rerun.mock.calls.map(([{ id }]) => id)).toEqual(['job-101', 'job-102']);
    expect(Notification.manager.notifications[0].message).toBe('2 tasks run again');
    model.rerun.mockClear().mockRejectedValueOnce(new Error('The variables are gone.'));
    void commands.execute(CommandIDs.rerunFailedTasks, { id: 'a1' });
    await answer('Rerun');
    expect(model.rerun).toHaveBeenCalledTimes(1);
    expect(Notification.manager.notifications[0].message).toBe('The variables are gone.');
    model.rerun.mockClear().mockResolvedValueOnce(undefined as never);
    model.rerun.mockRejectedValueOnce(new Error('The queue is full.'));
    void commands.execute(CommandIDs.rerunFailedTasks, { id: 'a1' });
    await answer('Rerun');
    const told = Notification.manager.notifications.map(({ message }) => message);
    expect(told).toContain('1 of 2 failed tasks run again');
    expect(told).toContain('The queue is full.');
  });

  it('say of failed tasks that are not listed that they stay', async () => {
    const failed = { status: 'Failed', secondary_status: 'Failed' } as const;
    await become([over(1, failed)], { completed: 2, failed: 10 });
    void commands.execute(CommandIDs.rerunFailedTasks, { id: 'a1' });
    expect(await answer('Cancel')).toContain('9 more failed tasks are not in the list');
  });

  it('run no task again of an array without a failed one', async () => {
    await become([over(0)], { completed: 12 });
    await commands.execute(CommandIDs.rerunFailedTasks, { id: 'a1' });
    expect(document.querySelector('.jp-Dialog')).toBeNull();
    expect(model.rerun).not.toHaveBeenCalled();
  });

  it.each([
    [CommandIDs.deleteJob, 'Delete', 'remove'],
    [CommandIDs.stopJob, 'Stop', 'stop'],
    [CommandIDs.interruptJob, 'Interrupt', 'interrupt']
  ] as const)(
    '%s acts on a job that is not listed, and calls it by its name',
    async (id, yes, act) => {
      void commands.execute(id, { id: 'older', name: 'digits-9' });
      expect(await answer(yes)).toContain('digits-9');
      expect(model[act]).toHaveBeenCalledWith(expect.objectContaining({ id: 'older' }));
    }
  );

  it('run a job again that is not listed', async () => {
    await commands.execute(CommandIDs.rerunJob, { id: 'older', name: 'digits-9' });
    expect(model.rerun).toHaveBeenCalledWith(expect.objectContaining({ id: 'older' }));
    const [said] = Notification.manager.notifications;
    expect(said.message).toBe('digits-9 rerun as older-again');
  });

  it('say why they failed until it was read: a message that nothing is said of stays hidden', async () => {
    model.rerun.mockRejectedValueOnce(new Error('The variables are gone.'));
    await commands.execute(CommandIDs.rerunJob, { id: 'job-1' });
    const [{ message, type, options }] = Notification.manager.notifications;
    expect([message, type, options.autoClose]).toEqual(['The variables are gone.', 'error', false]);
  });

  it('do nothing where somebody says no', async () => {
    await become([completed(1)]);
    void commands.execute(CommandIDs.deleteJob, { id: 'job-1' });
    await answer('Cancel');
    expect(removed()).toEqual([]);
  });
});
