// Search in a whole log: the server searches it part by part from the end, and the user steps from match to match.

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { errorText } from '../api/errors';
import type { ISearchTerm } from './ansi';
import type { ILogId, ILogSource, ISearchQuery, ISearchResult } from './logSource';

/** Matches that are kept; a user with more needs other words. */
export const MAX_MATCHES = 100_000;
/** Bytes before the old end to search again: words may have been incomplete there, or drawn over since. */
const AGAIN = 65_536;

/** Sends a request to search a part of the log. */
type Ask = (where: Pick<ISearchQuery, 'after' | 'before'>) => Promise<ISearchResult | null>;

export class LogSearch implements IDisposable {
  constructor(private readonly source: ILogSource) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Return the words of the search; null without a search. */
  get words(): ISearchTerm | null {
    return this._words;
  }

  /** Return the number of lines that were found. */
  get count(): number {
    return this._places.length;
  }

  /** Return true if there are more lines than are kept. */
  get isTooMany(): boolean {
    return this._places.length >= MAX_MATCHES;
  }

  /** Return the progress, from 0 to 1. */
  get progress(): number {
    return this._total > 0 ? 1 - (this._before ?? this._total) / this._total : 1;
  }

  get isDone(): boolean {
    return this._before === 0 || this.isTooMany;
  }

  /** Return the number of the current line, counted from the first one; null until it is known. */
  get number(): number | null {
    return this._at === null ? null : this._places.length - this._at;
  }

  /** Return the byte at which the words begin in the current line. */
  get place(): number | null {
    return this._at === null ? null : this._places[this._at];
  }

  /** Return the error message of the server. */
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

  /** Search for words, and go to the last line before `from` that has them. */
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

  /** Continue after a pause, or after the log has grown to `total` bytes. */
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

  /** Stop all requests while the view is hidden. */
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

  /** Search what was not searched yet; return true if the first byte was reached. */
  private async _look(ask: Ask): Promise<boolean> {
    while (!this.isDone) {
      const found = await ask({ after: 0, before: this._before });
      if (!found) {
        return false;
      }
      // What was appended after the first answer is searched afterwards.
      this._total = this._before === undefined ? found.total : this._total;
      this._before = found.reached;
      this._places = this._places.concat(found.places).slice(0, MAX_MATCHES);
      this._arrive();
      this._changed.emit();
    }
    return true;
  }

  /**
   * Search what was appended to the log.
   *
   * Begin with the last line that was found, which counts once: it may have been drawn again, as progress bars are.
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
    // An append that was reported in the meantime may lie behind what was searched.
    this._grown = this._grown === grown ? 0 : this._grown;
    this._places = fresh.concat(kept).slice(0, MAX_MATCHES);
    this._at = this._at === null ? null : within(this._places, this._at + gained);
    this._arrive();
    this._changed.emit();
    return true;
  }

  /** Search with requests of its own. `look` gets null if one was aborted or refused; a refusal sets `problem`. */
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

  /** Go to the requested line as soon as it is found. */
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

/** Return the nearest valid index; null without places. */
function within(places: readonly number[], at: number): number | null {
  return places.length === 0 ? null : Math.min(Math.max(0, at), places.length - 1);
}
