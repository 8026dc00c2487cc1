// The browser's memory, or one of this page where the browser lets it have none.

import type { IMemory } from './told';

export function memoryOf(window: { readonly localStorage: Storage }): IMemory {
  try {
    const { localStorage } = window;
    localStorage.getItem('jupyter-smx');
    return localStorage;
  } catch {
    // The mere look at it is refused where somebody forbids a site to keep data.
    const kept = new Map<string, string>();
    return {
      getItem: name => kept.get(name) ?? null,
      setItem: (name, value) => void kept.set(name, value)
    };
  }
}
