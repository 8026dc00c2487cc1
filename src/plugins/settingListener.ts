// One setting at a time: Lab says that some setting of a plugin changed, never which.

import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { JSONExt } from '@lumino/coreutils';

/**
 * Apply a setting whenever its own value changed. What is given back applies it for the first time.
 */
export function onSettingChange(
  settings: ISettingRegistry.ISettings,
  name: string,
  apply: (value: unknown) => void
): () => void {
  let applied = settings.get(name).composite;
  const look = (): void => {
    const value = settings.get(name).composite;
    if (!JSONExt.deepEqual(value ?? null, applied ?? null)) {
      applied = value;
      apply(value);
    }
  };
  return () => {
    applied = settings.get(name).composite;
    apply(applied);
    settings.changed.connect(look);
  };
}
