// The places of commands in the palette, all under one heading.

import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

export function addToPalette(
  palette: ICommandPalette | null,
  trans: TranslationBundle,
  ...commands: readonly string[]
): void {
  const category = trans.__('Jobs and Pools');
  for (const command of commands) {
    palette?.addItem({ command, category });
  }
}
