import { Dialog, Notification } from '@jupyterlab/apputils';
import type { Terminal } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';

import type { ShellCommand } from '../../_types';
import { ApiError } from '../../api/errors';
import { CommandIDs } from '../../commands/commandIds';
import type { IShellOptions } from '../../commands/shellCommands';
import { addShellCommands } from '../../commands/shellCommands';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job, pool } from '../fixtures/examples';
import { FakeModel, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');
const NEW_TERMINAL = 'terminal:create-new';

/** A terminal of the server, as one connection to it: messages that are sent before it opens follow when it does. */
class FakeSession {
  readonly name = '7';
  readonly connectionStatusChanged = new Signal<this, Terminal.ConnectionStatus>(this);
  connectionStatus: Terminal.ConnectionStatus = 'connecting';
  isDisposed = false;
  isOver = false;
  typed: Terminal.IMessage[] = [];
  sent: Terminal.IMessage[] = [];

  send(message: Terminal.IMessage): void {
    this.typed.push(message);
  }

  become(status: Terminal.ConnectionStatus): void {
    this.connectionStatus = status;
    if (status === 'connected') {
      this.sent = this.typed;
    }
    this.connectionStatusChanged.emit(status);
  }

  dispose(): void {
    this.isDisposed = true;
    // As JupyterLab's own does.
    this.become('disconnected');
  }

  shutdown(): Promise<void> {
    this.isOver = true;
    return Promise.resolve();
  }
}

describe('a shell', () => {
  let model: FakeModel;
  let commands: CommandRegistry;
  let session: FakeSession;
  let shown: unknown[];
  let asked: string[][];
  let answer: ShellCommand;
  let isAvailable: boolean;

  beforeEach(() => {
    model = new FakeModel();
    commands = new CommandRegistry();
    session = new FakeSession();
    [shown, asked, isAvailable] = [[], [], true];
    answer = { command: ['enter', 'a b'], hosts: ['algo-1'] };
    commands.addCommand(NEW_TERMINAL, {
      describedBy: { args: { type: 'object' } },
      execute: args => shown.push({ ...args })
    });
    const terminals = {
      isAvailable: () => isAvailable,
      startNew: () => Promise.resolve(session)
    };
    const app = { commands, serviceManager: { terminals } } as unknown as IShellOptions['app'];
    const shell = (...words: string[]): Promise<ShellCommand> => {
      asked.push(words);
      const command = words[2] ? [...answer.command, words[2]] : answer.command;
      return Promise.resolve({ ...answer, command });
    };
    addShellCommands({ app, api: { shell }, model, trans });
  });

  afterEach(() => {
    Dialog.flush();
    Notification.manager.dismiss();
  });

  const said = (): string[] => Notification.manager.notifications.map(({ message }) => message);
  const lines = (): unknown[] => session.typed.map(({ content }) => content);

  it('opens in a new terminal, in which the command of the controller is typed', async () => {
    await commands.execute(CommandIDs.openShell, { id: 'job-0' });
    expect(asked).toEqual([['jobs', 'job-0', '']]);
    expect(shown).toEqual([{ name: '7' }]);
    expect(session.typed).toEqual([{ type: 'stdin', content: ["enter 'a b'\r"] }]);
  });

  it('keeps its own connection only until the line is sent, and the terminal after that', async () => {
    await commands.execute(CommandIDs.openShell, { id: 'job-0' });
    expect(session.isDisposed).toBe(false);
    session.become('connected');
    expect([session.isDisposed, session.isOver]).toEqual([true, false]);
    expect(session.sent).toEqual(session.typed);
    await waitForRender();
    expect(said()).toEqual([]);
  });

  it('says what to type if the connection never opened, and keeps the terminal', async () => {
    await commands.execute(CommandIDs.openShell, { id: 'old', name: 'n'.repeat(63) });
    session.become('disconnected');
    await waitForRender();
    expect(session.sent).toEqual([]);
    expect([session.isDisposed, session.isOver]).toEqual([true, false]);
    expect(said()).toEqual([
      expect.stringContaining(`Run it in the terminal: jupyter smx shell ${'n'.repeat(63)}`)
    ]);
    expect(said()[0].length).toBeLessThanOrEqual(140);
  });

  it('opens on a host of a pool', async () => {
    model.state = applyListing(EMPTY_STATE, [], [pool(1)], 1).state;
    await commands.execute(CommandIDs.openPoolShell, { id: 'pool-1' });
    expect(asked).toEqual([['pools', 'pool-1', '']]);
    expect(lines()).toEqual([["enter 'a b'\r"]]);
  });

  it('opens without a question if only one job or pool has hosts', async () => {
    const jobs = [
      job(0, { secondary_status: 'Starting' }),
      job(1),
      completed(2, { warm_pool_status: 'Terminated' })
    ];
    const pools = [pool(1, { state: 'Provisioning' }), pool(2, { state: 'InUse' })];
    model.state = applyListing(EMPTY_STATE, jobs, pools, 1).state;
    await commands.execute(CommandIDs.openShell);
    await commands.execute(CommandIDs.openPoolShell);
    expect(asked.map(([of, id]) => [of, id])).toEqual([
      ['jobs', 'job-1'],
      ['pools', 'pool-2']
    ]);
  });

  it('opens on the named host, or on the one that the user chooses of several', async () => {
    answer = { command: ['enter'], hosts: ['algo-1', 'algo-2'] };
    await commands.execute(CommandIDs.openShell, { id: 'job-0', host: 'algo-2' });
    expect(lines()).toEqual([['enter algo-2\r']]);
    const choice = commands.execute(CommandIDs.openShell, { id: 'job-0' });
    await waitForRender();
    expect(document.querySelector('.jp-Dialog')?.textContent).toContain('Select Host');
    const list = document.querySelector('.jp-Dialog select') as HTMLSelectElement;
    list.value = 'algo-2';
    document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-accept')?.click();
    await choice;
    expect(lines()).toEqual([['enter algo-2\r'], ['enter algo-2\r']]);
  });

  it('does not open if the user chooses no host', async () => {
    answer = { command: ['enter'], hosts: ['algo-1', 'algo-2'] };
    const choice = commands.execute(CommandIDs.openShell, { id: 'job-0' });
    await waitForRender();
    document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-reject')?.click();
    await choice;
    expect([shown, session.typed]).toEqual([[], []]);
  });

  it('says what to do if the server has no terminals', async () => {
    isAvailable = false;
    model.state = applyListing(EMPTY_STATE, [job(0)], [pool(1)], 1).state;
    await commands.execute(CommandIDs.openShell, { id: 'job-0' });
    await commands.execute(CommandIDs.openPoolShell, { id: 'pool-1' });
    expect(said()).toEqual([
      expect.stringContaining('run: jupyter smx shell --pool local-1'),
      expect.stringContaining('run: jupyter smx shell train-digits-0')
    ]);
    expect([asked, shown]).toEqual([[], []]);
  });

  it('says that in a visible message, short enough for the longest name', async () => {
    isAvailable = false;
    await commands.execute(CommandIDs.openShell, { id: 'old', name: 'n'.repeat(63) });
    const [{ message, options }] = Notification.manager.notifications;
    expect(message.length).toBeLessThanOrEqual(140);
    expect(options.autoClose).toBe(false);
  });

  it('says why the controller has no shell for it, and leaves no terminal behind', async () => {
    asked.push = () => {
      throw new ApiError(404, 'ResourceNotFound', 'train-digits-0 has no hosts.');
    };
    await commands.execute(CommandIDs.openShell, { id: 'job-0' });
    expect(said()).toEqual(['train-digits-0 has no hosts.']);
    expect(shown).toEqual([]);
  });

  it('ends its terminal if that cannot be shown', async () => {
    shown.push = () => {
      throw new Error('No room.');
    };
    await commands.execute(CommandIDs.openShell, { id: 'job-0' });
    expect(said()).toEqual(['No room.']);
    expect([session.isOver, session.typed]).toEqual([true, []]);
  });
});
