// Commands from buttons and keys: each of them belongs to a plugin, which an administrator may have switched off.

import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

/**
 * What executes a command; undefined while nobody has added it, so that a button without an effect is not drawn.
 */
export function commandRunner(
  commands: CommandRegistry,
  id: string
): ((args?: ReadonlyPartialJSONObject) => void) | undefined {
  return commands.hasCommand(id) ? args => void commands.execute(id, args) : undefined;
}

/** The same for a command that acts on one job, pool or array. */
export function itemCommandRunner(
  commands: CommandRegistry,
  id: string
): ((one: { id: string }) => void) | undefined {
  const act = commandRunner(commands, id);
  return act && (one => act({ id: one.id }));
}
