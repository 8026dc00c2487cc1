// Questions that were answered, in any tab of this browser, each until it is over.

import type { IStorage } from './storage';

export class PromptStore {
  constructor(
    private readonly storage: IStorage,
    private readonly key: string
  ) {}

  has(question: string): boolean {
    return this._read().some(([one]) => one === question);
  }

  /** Remember an answer until the question is over; answers to questions that are over go. */
  add(question: string, until: number, now: number): void {
    const open = this._read().filter(([one, end]) => end > now && one !== question);
    this.storage.setItem(this.key, JSON.stringify([...open, [question, until]]));
  }

  private _read(): [string, number][] {
    try {
      const found: unknown = JSON.parse(this.storage.getItem(this.key) ?? '[]');
      return Array.isArray(found) ? found.filter(isAnswer) : [];
    } catch {
      return [];
    }
  }
}

function isAnswer(value: unknown): value is [string, number] {
  return Array.isArray(value) && typeof value[0] === 'string' && typeof value[1] === 'number';
}
