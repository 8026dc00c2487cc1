// Shells on hosts of jobs and pools, in terminals of JupyterLab. An administrator may disable the plugin.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { TranslationBundle } from '@jupyterlab/translation';
import { terminalIcon } from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type { ApiClient, ShellTarget } from '../api/client';
import { jobHasHosts, livePools, orderedJobs, poolHasHosts } from '../state/state';
import type { IJobsModel } from '../tokens';
import { CommandIDs, idArgs, JOB_PROPERTIES } from './commandIds';
import { jobFromArgs, notifyOnError, poolFromArgs } from './prompts';
import { whileReachable } from './reachability';

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
export interface IWhose {
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
  const { openShell } = await import('./shellTerminal');
  await openShell(whose, options);
}
