// A log as the server has it: bytes, answers as its routes give them, and what was asked.

import type { IFindAsk, IFound, ILogAsk, ILogPart, ILogSource } from '../log/source';

/** Bytes that one search looks through. */
const PART = 1_000;

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

export class FakeLog implements ILogSource {
  constructor(
    text = '',
    public isFinal = false
  ) {
    this.bytes = bytesOf(text);
  }

  bytes: Uint8Array;
  attempt = 1;
  hosts = ['algo-1'];
  readonly asked: ILogAsk[] = [];
  readonly searched: IFindAsk[] = [];
  /** What is thrown instead of the next answers. */
  errors: unknown[] = [];
  /** How many questions wait. */
  get waiting(): number {
    return this._bells.size;
  }

  grow(text: string | Uint8Array): void {
    const more = typeof text === 'string' ? bytesOf(text) : text;
    const all = new Uint8Array(this.bytes.length + more.length);
    all.set(this.bytes);
    all.set(more, this.bytes.length);
    this.bytes = all;
    this.ring();
  }

  end(): void {
    this.isFinal = true;
    this.ring();
  }

  /** The job begins again. */
  again(text: string): void {
    this.bytes = bytesOf(text);
    this.attempt += 1;
    this.ring();
  }

  ring(): void {
    const bells = [...this._bells];
    this._bells.clear();
    bells.forEach(bell => bell());
  }

  async read(ask: ILogAsk, signal: AbortSignal): Promise<ILogPart> {
    this.asked.push(ask);
    await Promise.resolve();
    if (this.errors.length > 0) {
      throw this.errors.shift();
    }
    const { attempt, bytes } = this;
    if (ask.wait > 0 && (ask.offset ?? 0) >= this.bytes.length && !this.isFinal) {
      await new Promise<void>((resolve, reject) => {
        this._bells.add(resolve);
        signal.addEventListener('abort', () => {
          this._bells.delete(resolve);
          reject(new DOMException('aborted', 'AbortError'));
        });
      });
    }
    if (this.errors.length > 0) {
      throw this.errors.shift();
    }
    if (attempt === this.attempt) {
      return this._part(ask);
    }
    // A question is about the run that was the newest when it was asked, which is over.
    const { offset = 0 } = ask;
    const [none, total] = [new Uint8Array(), bytes.length];
    const old = { bytes: none, start: offset, next: offset, total, isFinal: true, attempt };
    return { ...this._part(ask), ...old };
  }

  async find(ask: IFindAsk, signal: AbortSignal): Promise<IFound> {
    this.searched.push(ask);
    await Promise.resolve();
    signal.throwIfAborted?.();
    const total = this.bytes.length;
    const before = Math.min(ask.before ?? total, total);
    const reached = Math.max(ask.after, before - PART);
    const text = new TextDecoder('latin1').decode(this.bytes);
    const places = [];
    let at = text.indexOf(ask.text, reached);
    while (at >= 0 && at < before) {
      const newline = text.indexOf('\n', at);
      const line = text.slice(at, newline < 0 ? total : newline).replace(/\r+$/, '');
      const drawnOver = line.lastIndexOf('\r');
      if (drawnOver < 0) {
        places.unshift(at);
      }
      at = text.indexOf(ask.text, at + (drawnOver < 0 ? line.length : drawnOver) + 1);
    }
    return { places, reached, total };
  }

  address(_which: unknown, name: string): string {
    return `/whole?name=${name}`;
  }

  private _part({ offset = 0, last, limit, host }: ILogAsk): ILogPart {
    const total = this.bytes.length;
    const start = last ? Math.max(0, total - last) : offset;
    const bytes = this.bytes.slice(start, start + limit);
    const next = start + bytes.length;
    return {
      bytes,
      start,
      next,
      total,
      isFinal: this.isFinal && next >= total,
      host: host || this.hosts[0],
      hosts: this.hosts,
      attempt: this.attempt,
      attempts: this.attempt
    };
  }

  private readonly _bells = new Set<() => void>();
}
