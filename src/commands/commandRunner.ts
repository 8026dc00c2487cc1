// Commands behind buttons and keys. Each belongs to a plugin, which an administrator may have disabled.

import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

interface IRunners {
  run: (args?: ReadonlyPartialJSONObject) => void;
  runOnItem: (one: { id: string }) => void;
}

/** One pair of functions for each command: a memoized row is drawn again if a function in its props is another one. */
const RUNNERS = new WeakMap<CommandRegistry, Map<string, IRunners>>();

/**
 * Return a function that executes a command; undefined while the command is not registered, so that no button without
 * effect is drawn. Repeated calls return the same function.
 */
export function commandRunner(commands: CommandRegistry, id: string): IRunners['run'] | undefined {
  return commands.hasCommand(id) ? runners(commands, id).run : undefined;
}

/** Return the same for a command that acts on one job, pool or array. */
export function itemCommandRunner(
  commands: CommandRegistry,
  id: string
): IRunners['runOnItem'] | undefined {
  return commands.hasCommand(id) ? runners(commands, id).runOnItem : undefined;
}

function runners(commands: CommandRegistry, id: string): IRunners {
  const all = RUNNERS.get(commands) ?? new Map<string, IRunners>();
  RUNNERS.set(commands, all);
  const known = all.get(id) ?? {
    run: args => void commands.execute(id, args),
    runOnItem: one => void commands.execute(id, { id: one.id })
  };
  all.set(id, known);
  return known;
}
