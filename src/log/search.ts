// Words in a whole log: the server looks for them part by part, the last lines first, and one goes from line to line.

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { errorText } from '../api/errors';
import type { ISearchTerm } from './ansi';
import type { ILogId, ILogSource, ISearchQuery, ISearchResult } from './logSource';

/** Lines that are kept; who finds more needs other words. */
export const MAX_MATCHES = 100_000;
/** Bytes before the old end in which words may begin that were not whole then, or may have been drawn over since. */
const AGAIN = 65_536;

/** Asks for the words in a part of the log. */
type Ask = (where: Pick<ISearchQuery, 'after' | 'before'>) => Promise<ISearchResult | null>;

export class LogSearch implements IDisposable {
  constructor(private readonly source: ILogSource) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What is looked for, null when nothing is. */
  get words(): ISearchTerm | null {
    return this._words;
  }

  /** Lines that were found. */
  get count(): number {
    return this._places.length;
  }

  /** Whether there are more of them than are kept. */
  get isTooMany(): boolean {
    return this._places.length >= MAX_MATCHES;
  }

  /** From 0 to 1. */
  get progress(): number {
    return this._total > 0 ? 1 - (this._before ?? this._total) / this._total : 1;
  }

  get isDone(): boolean {
    return this._before === 0 || this.isTooMany;
  }

  /** Which line one is at, counted from the first; only then it is known. */
  get number(): number | null {
    return this._at === null ? null : this._places.length - this._at;
  }

  /** The byte at which the words begin in the line that one is at. */
  get place(): number | null {
    return this._at === null ? null : this._places[this._at];
  }

  /** What the server said against it. */
  get problem(): string {
    return this._problem;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._stop();
    Signal.clearData(this);
  }

  /** Look for words, and go to the last line before `from` that has them. */
  find(words: ISearchTerm | null, which: ILogId, from: number): void {
    this._stop();
    this._words = words && words.text !== '' ? words : null;
    this._which = which;
    this._from = from;
    this._places = [];
    this._at = null;
    this._before = undefined;
    this._total = this._grown = 0;
    this._problem = '';
    this._changed.emit();
    this.resume();
  }

  /** Go on, after a pause or where the log has grown to `total` bytes. */
  resume(total = 0): void {
    this._grown = Math.max(this._grown, total);
    if (this._words && !this._question && !this._isDisposed) {
      if (!this.isDone) {
        void this._asking(this._words, ask => this._look(ask));
      } else if (this._grown > this._total && !this.isTooMany) {
        void this._asking(this._words, ask => this._lookOn(ask));
      }
    }
  }

  /** Ask nothing while nobody looks. */
  pause(): void {
    this._stop();
  }

  /** Go to the next line towards the end, or from the last to the first. */
  next(): void {
    this._go(-1);
  }

  previous(): void {
    this._go(1);
  }

  private _go(step: number): void {
    const count = this._places.length;
    if (count > 0) {
      this._at = this._at === null ? 0 : (this._at + step + count) % count;
      this._changed.emit();
    }
  }

  private _stop(): void {
    this._question?.abort();
    this._question = null;
  }

  /** Look through what was not looked through yet; says whether it came to the first byte. */
  private async _look(ask: Ask): Promise<boolean> {
    while (!this.isDone) {
      const found = await ask({ after: 0, before: this._before });
      if (!found) {
        return false;
      }
      // What comes behind the end that the first answer saw is looked through afterwards.
      this._total = this._before === undefined ? found.total : this._total;
      this._before = found.reached;
      this._places = this._places.concat(found.places).slice(0, MAX_MATCHES);
      this._arrive();
      this._changed.emit();
    }
    return true;
  }

  /**
   * The log has grown: look through what is new.
   *
   * From the last line that was found on, which counts once: it may have been drawn anew, as a bar is.
   */
  private async _lookOn(ask: Ask): Promise<boolean> {
    const after = Math.max(0, this._places[0] ?? 0, this._total - AGAIN);
    const grown = this._grown;
    let before: number | undefined;
    let total = 0;
    let fresh: number[] = [];
    do {
      const found = await ask({ after, before });
      if (!found) {
        return false;
      }
      total ||= found.total;
      before = found.reached;
      fresh = fresh.concat(found.places);
    } while (before > after);
    const kept = this._places[0] === after ? this._places.slice(1) : this._places;
    const gained = fresh.length + kept.length - this._places.length;
    this._total = total;
    // What was heard of meanwhile may lie behind what was looked through.
    this._grown = this._grown === grown ? 0 : this._grown;
    this._places = fresh.concat(kept).slice(0, MAX_MATCHES);
    this._at = this._at === null ? null : within(this._places, this._at + gained);
    this._arrive();
    this._changed.emit();
    return true;
  }

  /** Ask with a question of one's own; null where it was given up, or refused, which is told. */
  private async _asking(words: ISearchTerm, look: (ask: Ask) => Promise<boolean>): Promise<void> {
    const question = new AbortController();
    this._question = question;
    const isWhole = await look(async where => {
      try {
        const what = { ...words, ...this._which, ...where };
        const found = await this.source.find(what, question.signal);
        this._problem = '';
        return question.signal.aborted ? null : found;
      } catch (reason) {
        if (!question.signal.aborted) {
          this._problem = errorText(reason);
          this._changed.emit();
        }
        return null;
      }
    });
    if (this._question === question) {
      this._question = null;
      if (isWhole) {
        this.resume();
      }
    }
  }

  /** Be at the line where one wanted to be, as soon as it is known. */
  private _arrive(): void {
    if (this._at === null && this._places.length > 0) {
      const at = this._places.findIndex(place => place < this._from);
      this._at = at >= 0 ? at : this.isDone ? this._places.length - 1 : null;
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _words: ISearchTerm | null = null;
  private _which: ILogId = { host: '', attempt: 0 };
  private _from = 0;
  private _places: number[] = [];
  private _at: number | null = null;
  private _before: number | undefined = undefined;
  private _total = 0;
  private _grown = 0;
  private _problem = '';
  private _question: AbortController | null = null;
  private _isDisposed = false;
}

/** The nearest number of a place that there is. */
function within(places: readonly number[], at: number): number | null {
  return places.length === 0 ? null : Math.min(Math.max(0, at), places.length - 1);
}
