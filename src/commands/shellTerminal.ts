// A shell on a host, in a terminal of JupyterLab; loaded with the first one that is opened.

import type { Terminal } from '@jupyterlab/services';

import { quoteCommand } from '../format/quoteCommand';
import type { IShellOptions, IWhose } from './shellCommands';
import { chooseItem, notifyOnError } from './prompts';

/** JupyterLab's command; it is missing if the server has no terminals. */
const NEW_TERMINAL = 'terminal:create-new';

/** Open a terminal with a shell on a host, which the user chooses if there are several. */
export async function openShell(whose: IWhose, options: IShellOptions): Promise<void> {
  const { app, trans } = options;
  if (!app.serviceManager.terminals.isAvailable() || !app.commands.hasCommand(NEW_TERMINAL)) {
    // JupyterLab cuts a message after 140 letters, and a name has up to 63.
    throw new Error(trans.__('Terminals are not available. On the server, run: %1', whose.instead));
  }
  const command = await commandFor(whose, options);
  if (command) {
    await typed(quoteCommand(command), whose.instead, options);
  }
}

/** Return the words of the command; null if the user chose none of several hosts. */
async function commandFor(
  { of, id, host }: IWhose,
  { api, trans }: IShellOptions
): Promise<readonly string[] | null> {
  const { command, hosts } = await api.shell(of, id, host);
  if (host || hosts.length < 2) {
    return command;
  }
  const which = await chooseItem(hosts, one => one, trans.__('Select Host'), trans);
  if (which === null) {
    return null;
  }
  return which === hosts[0] ? command : (await api.shell(of, id, which)).command;
}

/**
 * Open a new terminal and type a line in it. JupyterLab's command accepts no first line, but it must create the
 * terminal's view: in Notebook 7 that is a page. So the line is sent over a connection of its own, and when the user
 * leaves the shell, the terminal remains.
 */
async function typed(line: string, instead: string, { app, trans }: IShellOptions): Promise<void> {
  const session = await app.serviceManager.terminals.startNew();
  try {
    await app.commands.execute(NEW_TERMINAL, { name: session.name });
  } catch (reason) {
    await session.shutdown();
    throw reason;
  }
  session.send({ type: 'stdin', content: [`${line}\r`] });
  const lost = trans.__('The command was not sent. Run it in the terminal: %1', instead);
  void notifyOnError(left(session, lost));
}

/**
 * Close a connection as soon as its messages are sent; the terminal stays. If the connection never opened, the line
 * was not sent either: reject with `lost`.
 */
function left(session: Terminal.ITerminalConnection, lost: string): Promise<void> {
  return new Promise((done, fail) => {
    const look = (): void => {
      const status = session.connectionStatus;
      if (status === 'connecting') {
        return;
      }
      session.connectionStatusChanged.disconnect(look);
      session.dispose();
      if (status === 'connected') {
        done();
      } else {
        fail(new Error(lost));
      }
    };
    session.connectionStatusChanged.connect(look);
    look();
  });
}
