// The browser's memory, and one of this page for what the browser does not keep.

/** The part of the browser's storage that is needed here; neither of both throws. */
export type IStorage = Pick<Storage, 'getItem' | 'setItem'>;

/**
 * A memory that keeps everything for as long as the page is open, and for longer where the browser lets it.
 */
export function createStorage(window: { readonly localStorage: Storage }): IStorage {
  const kept = new Map<string, string>();
  // The mere look at the storage is refused where somebody forbids a site to keep data.
  const read = (name: string): string | null => {
    try {
      return window.localStorage.getItem(name);
    } catch {
      return null;
    }
  };
  return {
    getItem: name => kept.get(name) ?? read(name),
    setItem: (name, value) => {
      try {
        window.localStorage.setItem(name, value);
        kept.delete(name);
      } catch {
        // Full or forbidden: then another tab may say a thing again, which harms less than an error would.
        kept.set(name, value);
      }
    }
  };
}
