// Commands behind buttons and keys. Each belongs to a plugin, which an administrator may have disabled.

import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

/**
 * Return a function that executes a command; undefined while the command is not registered, so that no button without
 * effect is drawn.
 */
export function commandRunner(
  commands: CommandRegistry,
  id: string
): ((args?: ReadonlyPartialJSONObject) => void) | undefined {
  return commands.hasCommand(id) ? args => void commands.execute(id, args) : undefined;
}

/** Return the same for a command that acts on one job, pool or array. */
export function itemCommandRunner(
  commands: CommandRegistry,
  id: string
): ((one: { id: string }) => void) | undefined {
  const act = commandRunner(commands, id);
  return act && (one => act({ id: one.id }));
}
