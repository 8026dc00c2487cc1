// Commands that need the server: while it does not answer they are disabled, as the buttons of rows and cards are.

import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';

import { isReachable } from '../state/connectionState';
import type { IState } from '../state/state';
import type { IJobsModel } from '../tokens';
import { CommandIDs } from './commandIds';

/** The commands that act on jobs and pools. */
const NEED_SERVER = [
  CommandIDs.stopJob,
  CommandIDs.interruptJob,
  CommandIDs.rerunJob,
  CommandIDs.deleteJob,
  CommandIDs.clearFinished,
  CommandIDs.stopArray,
  CommandIDs.rerunFailedTasks,
  CommandIDs.deleteArray,
  CommandIDs.extendPool,
  CommandIDs.releasePool,
  CommandIDs.compareJobs,
  CommandIDs.openShell,
  CommandIDs.openPoolShell
];

/** Return what enables a command while the server answers. */
export function whileReachable(
  model: IJobsModel
): Pick<CommandRegistry.ICommandOptions, 'isEnabled'> {
  return { isEnabled: () => isReachable(model.state) };
}

/** Let open menus and the palette draw the commands again when the server is lost, and when it answers again. */
export function followReachability(commands: CommandRegistry, model: IJobsModel): IDisposable {
  let before = isReachable(model.state);
  const onChanged = (_: unknown, state: IState): void => {
    const now = isReachable(state);
    if (now !== before) {
      before = now;
      const added = NEED_SERVER.filter(id => commands.hasCommand(id));
      added.forEach(id => commands.notifyCommandChanged(id));
    }
  };
  model.changed.connect(onChanged);
  return new DisposableDelegate(() => model.changed.disconnect(onChanged));
}
