// Reads one log page by page: follows its end, or loads the pages around the position that is shown.

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { sleep } from '../api/sleep';
import type { ILogError } from './logError';
import { toLogError } from './logError';
import type { ILogId, ILogPart, ILogQuery, ILogSource } from './logSource';
import { LogWindow } from './logWindow';
import { LONGEST_WAIT, waitAfterAnswer, waitAfterCut } from './readTimeout';

/** Maximum bytes of one answer. */
const PIECE = 262_144;
/** Bytes that are read at first: at least what one page shows. */
const OPENING = 131_072;
/** Bytes of unread log above which a follower skips to the end. */
const FAR = 1_048_576;
/** Minimum milliseconds between two answers with data; together with `PIECE`, this limits the rate. */
const PACE = 250;
/** Milliseconds until the first retry after an outage; doubled for each further one, up to a limit. */
const AGAIN = 1_000;
const AGAIN_AT_MOST = 15_000;

/** The hosts and runs to choose from. */
export type IRuns = Pick<ILogPart, 'hosts' | 'attempts'>;

/** What to read next. */
type ReadTarget = { kind: 'end' | 'earlier' | 'later' } | { kind: 'place'; place: number };

export class LogReader implements IDisposable {
  /** `clock` returns milliseconds since any moment. */
  constructor(
    private readonly source: ILogSource,
    private readonly clock: () => number = () => performance.now()
  ) {}

  readonly window = new LogWindow();

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Return which log is read: `attempt` is 0 for the newest run, even if that changes. */
  get which(): ILogId {
    return this._which;
  }

  /** Return the last answer of the server; null before the first one. */
  get latest(): Omit<ILogPart, 'bytes'> | null {
    return this._latest;
  }

  /** Return the hosts and the number of runs of the job; null before they are known. */
  get runs(): IRuns | null {
    return this._runs;
  }

  get problem(): ILogError | null {
    return this._problem;
  }

  get isFollowing(): boolean {
    return this._isFollowing;
  }

  /** Return the place to scroll to, until the view has scrolled there; each request is another object. */
  get target(): { place: number } | null {
    return this._target;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Return the bytes that the log is known to have. */
  get total(): number {
    return this._known;
  }

  /** Return true if no byte will follow those that are known. */
  get isEnded(): boolean {
    return this._isEnded;
  }

  dispose(): void {
    this._isDisposed = true;
    this.pause();
    Signal.clearData(this);
  }

  /** Start reading when the view becomes visible; after an outage, retry at once. */
  start(): void {
    this._isSeen = true;
    // The server's cut of a long request may have been a single one, so try the longest wait again.
    this._wait = LONGEST_WAIT;
    if (this._problem?.kind !== 'gone') {
      this._go();
    }
  }

  /** Stop all requests while the view is hidden. */
  pause(): void {
    this._isSeen = false;
    this._stop();
  }

  follow(isFollowing: boolean): void {
    if (isFollowing !== this._isFollowing) {
      this._isFollowing = isFollowing;
      this._changed.emit();
      this._go();
    }
  }

  /** Show the end, and follow it. */
  toEnd(): void {
    this._isFollowing = true;
    this._nextRead = { kind: 'end' };
    this._changed.emit();
    this._go();
  }

  /** Show the lines around a byte. */
  toPlace(place: number): void {
    this._isFollowing = false;
    const { start, end } = this.window;
    if (place >= start && place < end) {
      this._target = { place };
      this._changed.emit();
      this._stay();
    } else {
      this._nextRead = { kind: 'place', place };
      this._go();
    }
  }

  /** Cancel a pending request to show another place or the end. */
  private _stay(): void {
    if (this._nextRead?.kind === 'place' || this._nextRead?.kind === 'end') {
      this._nextRead = null;
      this._go();
    }
  }

  /** Read the lines before the first row, if there are any. */
  earlier(): void {
    if (this.window.start > this._begin && !this._nextRead) {
      this._nextRead = { kind: 'earlier' };
      this._go();
    }
  }

  /** Read the lines after the last row, if there are any. */
  later(): void {
    if (this.window.end < this._known && !this._isFollowing && !this._nextRead) {
      this._nextRead = { kind: 'later' };
      this._go();
    }
  }

  /** Read another host's log, or another run's. */
  choose(which: ILogId): void {
    this._which = which;
    this._latest = null;
    this._toBegin();
    this._go();
  }

  private _toBegin(): void {
    this.window.open(new Uint8Array(), 0);
    this._known = 0;
    this._begin = 0;
    this._isEnded = false;
    this._isFollowing = true;
    this._nextRead = { kind: 'end' };
    this._changed.emit();
  }

  private _stop(): void {
    this._question?.abort();
    this._question = null;
  }

  /** Cancel a waiting request or a pause, and read what is due now. */
  private _go(): void {
    this._stop();
    if (this._isSeen && !this._isDisposed) {
      const question = new AbortController();
      this._question = question;
      void this._read(question.signal);
    }
  }

  private async _read(signal: AbortSignal): Promise<void> {
    let pause = AGAIN;
    while (!signal.aborted) {
      try {
        const isMore = await this._readOne(signal);
        pause = AGAIN;
        if (!isMore) {
          return;
        }
      } catch (reason) {
        if (signal.aborted) {
          return;
        }
        this._problem = toLogError(reason);
        this._changed.emit();
        if (this._problem.kind !== 'outage') {
          return;
        }
        await sleep(pause, signal);
        pause = Math.min(2 * pause, AGAIN_AT_MOST);
      }
    }
  }

  /** Send one request; return false if nothing is left to read. */
  private async _readOne(signal: AbortSignal): Promise<boolean> {
    const wish = this._nextRead ?? this._behind();
    if (!wish && this._isEnded) {
      return false;
    }
    const ask = wish ? this._askOf(wish) : this._watch();
    const begun = this.clock();
    let part: ILogPart;
    try {
      part = await this.source.read({ ...this._which, ...ask }, signal);
    } catch (reason) {
      const wait = waitAfterCut(ask.wait, (this.clock() - begun) / 1000, reason);
      if (signal.aborted || wait === null) {
        throw reason;
      }
      this._wait = wait;
      return true;
    }
    if (signal.aborted) {
      return false;
    }
    this._wait = waitAfterAnswer(this._wait, ask.wait, part.bytes.length);
    this._receive(wish, part);
    this._changed.emit();
    if (part.bytes.length > 0) {
      await sleep(PACE, signal);
    }
    return true;
  }

  private _receive(wish: ReadTarget | null, part: ILogPart): void {
    const isAnother = this._isAnother(part);
    this._problem = null;
    this._latest = part;
    this._runs = { hosts: part.hosts, attempts: part.attempts };
    if (isAnother) {
      this._toBegin();
      return;
    }
    const asked = this._known;
    this._known = part.total;
    // Only an answer that has the last byte says that the log has ended, and that is final.
    this._isEnded ||= part.isFinal;
    this._nextRead = null;
    if (wish) {
      this._take(wish, part);
    } else if (this._isFollowing && this.window.end === asked) {
      this.window.append(part.bytes, part.start);
    }
  }

  /** Return true if the job restarted, or the file is another one. */
  private _isAnother(part: ILogPart): boolean {
    const before = this._latest;
    // A request that waited is answered for the run that was the newest when it was sent.
    const isPassed = this._which.attempt === 0 && part.attempt < part.attempts;
    const isNew = before !== null && part.attempt !== before.attempt;
    return isPassed || isNew || part.total < this._known;
  }

  /** Return what a follower has not read yet; if that is too much, only the end. */
  private _behind(): ReadTarget | null {
    const missing = this._known - this.window.end;
    return this._isFollowing && missing > 0 ? { kind: missing > FAR ? 'end' : 'later' } : null;
  }

  private _askOf(wish: ReadTarget): Omit<ILogQuery, keyof ILogId> {
    const { start, end } = this.window;
    switch (wish.kind) {
      case 'end':
        return { last: OPENING, limit: OPENING, wait: 0 };
      case 'earlier':
        return {
          offset: Math.max(0, start - PIECE),
          before: start,
          limit: Math.min(start, PIECE),
          wait: 0
        };
      case 'later':
        return { offset: end, limit: PIECE, wait: 0 };
      case 'place':
        return { offset: Math.max(0, wish.place - PIECE / 2), limit: PIECE, wait: 0 };
    }
  }

  /** Wait for new bytes; without following, one byte is enough, as it shows that there are some. */
  private _watch(): Omit<ILogQuery, keyof ILogId> {
    // After a problem an answer without news shows that it has passed, so do not wait for news.
    const wait = this._problem ? 0 : this._wait;
    return { offset: this._known, limit: this._isFollowing ? PIECE : 1, wait };
  }

  private _take(wish: ReadTarget, { bytes, start, next }: ILogPart): void {
    const { window } = this;
    // If bytes were left out, the positions of the following lines changed.
    if (wish.kind === 'earlier' && next <= window.start) {
      const first = window.start;
      window.prepend(bytes, start);
      if (window.start === first) {
        this._begin = first;
      }
    } else if (wish.kind === 'later' && start >= window.end) {
      window.append(bytes, start);
    } else if (wish.kind === 'end' || wish.kind === 'place') {
      window.open(bytes, start, wish.kind === 'place' ? wish.place : undefined);
      this._target = wish.kind === 'place' ? { place: wish.place } : null;
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _which: ILogId = { host: '', attempt: 0 };
  private _latest: ILogPart | null = null;
  private _runs: IRuns | null = null;
  private _problem: ILogError | null = null;
  private _question: AbortController | null = null;
  private _nextRead: ReadTarget | null = { kind: 'end' };
  private _target: { place: number } | null = null;
  private _known = 0;
  private _wait = LONGEST_WAIT;
  /** The first byte that can be read: earlier ones were left out. */
  private _begin = 0;
  private _isFollowing = true;
  private _isEnded = false;
  private _isSeen = false;
  private _isDisposed = false;
}
