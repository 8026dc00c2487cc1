// Fakes of the browser for tests of notifications: its memory, its locks, its desktop and its tabs.

import type { IMemory } from '../notify/memory';
import { memoryOf } from '../notify/memory';

/** The storage of a browser, which may be full. */
export class Memory implements IMemory {
  isFull = false;

  getItem(name: string): string | null {
    return this._kept.get(name) ?? null;
  }

  setItem(name: string, value: string): void {
    if (this.isFull) {
      throw new Error('QuotaExceededError');
    }
    this._kept.set(name, value);
  }

  private readonly _kept = new Map<string, string>();
}

/** What we make of the storage of a browser; null where it refuses even the look at it. */
export function memoryOver(storage: Memory | null): IMemory {
  return memoryOf({
    get localStorage(): Storage {
      if (storage === null) {
        throw new Error('SecurityError');
      }
      return storage as unknown as Storage;
    }
  });
}

interface IWaiting {
  name: string;
  mode: LockMode;
  begin: () => void;
}

/** Locks as the standard has them: shared or exclusive, in the order of the requests. */
export class Locks {
  request = (
    name: string,
    { mode = 'exclusive', signal }: LockOptions,
    work: LockGrantedCallback<void>
  ): Promise<void> =>
    new Promise((resolve, reject) => {
      const wish: IWaiting = {
        name,
        mode,
        begin: () => {
          this._held.push(wish);
          void Promise.resolve(work({ name, mode })).then(() => {
            this._held = this._held.filter(one => one !== wish);
            resolve();
            this._grant();
          });
        }
      };
      signal?.addEventListener('abort', () => {
        this._pending = this._pending.filter(one => one !== wish);
        reject(new Error('AbortError'));
      });
      this._pending.push(wish);
      void Promise.resolve().then(() => this._grant());
    });

  query = (): Promise<LockManagerSnapshot> =>
    Promise.resolve({ held: this._held.map(({ name, mode }) => ({ name, mode })) });

  private _grant(): void {
    for (const wish of [...this._pending]) {
      const rivals = this._held.filter(one => one.name === wish.name);
      const isFree = rivals.every(one => one.mode === 'shared' && wish.mode === 'shared');
      if (isFree) {
        this._pending = this._pending.filter(one => one !== wish);
        wish.begin();
      }
    }
  }

  private _held: IWaiting[] = [];
  private _pending: IWaiting[] = [];
}

/** A page that a test shows and hides. */
export class Page extends EventTarget {
  visibilityState: DocumentVisibilityState = 'visible';

  turn(state: DocumentVisibilityState): void {
    this.visibilityState = state;
    this.dispatchEvent(new Event('visibilitychange'));
  }
}

/** A desktop that keeps what it shows; a note with the tag of another takes its place. */
export class Screen {
  static permission: NotificationPermission = 'granted';
  static answer: NotificationPermission = 'granted';
  static shown: Screen[] = [];
  static made = 0;

  static requestPermission(): Promise<NotificationPermission> {
    Screen.permission = Screen.answer;
    return Promise.resolve(Screen.answer);
  }

  static clear(permission: NotificationPermission = 'granted'): void {
    Screen.permission = permission;
    Screen.shown = [];
    Screen.made = 0;
  }

  onclick: (() => void) | null = null;
  readonly tag: string;
  readonly body: string;

  constructor(
    readonly title: string,
    { tag = '', body = '' }: NotificationOptions
  ) {
    this.tag = tag;
    this.body = body;
    Screen.made += 1;
    Screen.shown = [...Screen.shown.filter(one => one.tag !== tag), this];
  }

  close(): void {
    Screen.shown = Screen.shown.filter(one => one !== this);
  }
}
