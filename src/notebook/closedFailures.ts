// The failed jobs whose open cards the user closed: such a card does not open by itself again, also after a reload.

import type { IStorage } from '../notifications/storage';

/** Jobs that are kept; the oldest goes first. */
const LIMIT = 200;

export class ClosedFailures {
  /** `key` is the name under which the ids are stored. */
  constructor(
    private readonly storage: IStorage,
    private readonly key: string
  ) {}

  has(id: string): boolean {
    return this._read().includes(id);
  }

  add(id: string): void {
    const others = this._read().filter(one => one !== id);
    this.storage.setItem(this.key, JSON.stringify([...others, id].slice(-LIMIT)));
  }

  private _read(): string[] {
    try {
      const kept: unknown = JSON.parse(this.storage.getItem(this.key) ?? '[]');
      return Array.isArray(kept) ? kept.filter(one => typeof one === 'string') : [];
    } catch {
      // Something else was stored under this name.
      return [];
    }
  }
}
