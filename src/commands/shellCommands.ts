// Shells on hosts of jobs and pools, in terminals of JupyterLab. An administrator may disable the plugin.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Terminal } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { terminalIcon } from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type { ApiClient, ShellTarget } from '../api/client';
import { quoteCommand } from '../format/quoteCommand';
import { jobHasHosts, livePools, orderedJobs, poolHasHosts } from '../state/state';
import type { IJobsModel } from '../tokens';
import { CommandIDs, idArgs, JOB_PROPERTIES } from './commandIds';
import { chooseItem, jobFromArgs, notifyOnError, poolFromArgs } from './prompts';
import { whileReachable } from './reachability';

/** JupyterLab's command; it is missing if the server has no terminals. */
const NEW_TERMINAL = 'terminal:create-new';

const HOST = {
  host: {
    type: 'string',
    description: 'Name of the host, e.g. "algo-2"; if omitted, a dialog asks for it'
  }
};

export interface IShellOptions {
  app: Pick<JupyterFrontEnd, 'commands' | 'serviceManager'>;
  api: Pick<ApiClient, 'shell'>;
  model: IJobsModel;
  trans: TranslationBundle;
}

/** The job or pool of a host, and the command line to type elsewhere for the same shell. */
interface IWhose {
  of: ShellTarget;
  id: string;
  host: string;
  instead: string;
}

/**
 * Add the commands that open a shell on a host of a job, and on one of a pool.
 */
export function addShellCommands(options: IShellOptions): void {
  const { app, model, trans } = options;
  app.commands.addCommand(CommandIDs.openShell, {
    label: trans.__('Open Shell in Job'),
    caption: trans.__('Open a terminal on the host of a running job'),
    icon: terminalIcon,
    ...whileReachable(model),
    describedBy: { args: { type: 'object', properties: { ...JOB_PROPERTIES, ...HOST } } },
    execute: async args => {
      const job = await jobFromArgs(
        args,
        model,
        trans,
        orderedJobs(model.state).filter(jobHasHosts)
      );
      if (job) {
        const instead = `jupyter smx shell ${job.name}`;
        await notifyOnError(
          opened({ of: 'jobs', id: job.id, host: hostOf(args), instead }, options)
        );
      }
    }
  });
  app.commands.addCommand(CommandIDs.openPoolShell, {
    label: trans.__('Open Shell on Pool Host'),
    caption: trans.__('Open a terminal on a host of a pool, in use or idle'),
    icon: terminalIcon,
    ...whileReachable(model),
    describedBy: { args: idArgs('ID of the pool; if omitted, a dialog asks for it', HOST) },
    execute: async args => {
      const pools = livePools(model.state).filter(poolHasHosts);
      const pool = await poolFromArgs(args, model, trans, pools);
      if (pool) {
        const instead = `jupyter smx shell --pool ${pool.name}`;
        await notifyOnError(
          opened({ of: 'pools', id: pool.id, host: hostOf(args), instead }, options)
        );
      }
    }
  });
}

function hostOf({ host }: ReadonlyPartialJSONObject): string {
  return typeof host === 'string' ? host : '';
}

async function opened(whose: IWhose, options: IShellOptions): Promise<void> {
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
