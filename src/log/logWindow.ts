// The part of a log that is in memory: rows that follow each other, added at either end, given up at the other.

import type { IRemainder, IRow } from './rows';
import { carriedColours, findRowStart, isText, remainderRow, splitRows } from './rows';

/** Rows, and bytes that are seen of them; more is on the disk, and one scrolls there. */
export const MAX_ROWS = 20_000;
export const MAX_BYTES = 4 * 1024 * 1024;

export class LogWindow {
  /** From the first to the last; the last grows where no newline ended it yet. */
  get rows(): readonly IRow[] {
    return this._rows;
  }

  /** The first byte. */
  get start(): number {
    return this._rows[0]?.start ?? this._end;
  }

  /** The byte behind the last one. */
  get end(): number {
    return this._end;
  }

  /** Whether all that was read is text. */
  get isText(): boolean {
    return this._isText;
  }

  /** Begin anew with bytes from somewhere; a line of which they have the end only is left out, unless `place` is in it. */
  open(bytes: Uint8Array, start: number, place = Infinity): void {
    const { skip, isContinued } =
      start === 0 ? WHOLE : findRowStart(bytes.subarray(0, place - start + 1));
    this._rows = [];
    this._seen = 0;
    this._isText = true;
    this._forget(start + skip, isContinued);
    this._grow(bytes.subarray(skip));
    this._giveUpFirst(Math.max(0, this.indexOf(place) - MAX_ROWS / 2));
    this._giveUpLast();
  }

  /** Add the bytes that follow, behind bytes that were left out where `start` is not the end. */
  append(bytes: Uint8Array, start = this._end): void {
    if (start !== this._end) {
      this._forget(start, false);
    }
    this._grow(bytes);
    this._giveUpFirst();
  }

  /** Add the bytes before the first row. */
  prepend(bytes: Uint8Array, start: number): void {
    const { skip, isContinued } = start === 0 ? WHOLE : findRowStart(bytes);
    const end = start + bytes.length;
    const { rows, rest } = splitRows(
      { start: start + skip, bytes: bytes.subarray(skip), isContinued },
      end
    );
    if (rest.bytes.length > 0) {
      rows.push({ ...remainderRow(rest, end), goesOn: true });
    }
    this._isText = this._isText && rows.every(row => isText(row.bytes));
    this._take(rows, '');
    this._rows = [...rows, ...this._rows];
    this._giveUpLast();
  }

  /** The row that has a byte, or the nearest one. */
  indexOf(place: number): number {
    let [low, high] = [0, this._rows.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this._rows[middle].start <= place) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  private _grow(bytes: Uint8Array): void {
    if (this._rest.bytes.length > 0) {
      this._drop(this._rows.pop());
    }
    this._end += bytes.length;
    const { rows, rest } = splitRows(
      { ...this._rest, bytes: joined(this._rest.bytes, bytes) },
      this._end
    );
    this._rest = rest;
    // What has no end yet may have half a character.
    this._isText = this._isText && rows.every(row => isText(row.bytes));
    if (rest.bytes.length > 0) {
      rows.push(remainderRow(rest, this._end));
    }
    const last = this._rows[this._rows.length - 1];
    this._take(rows, last ? carriedColours(last.colours, last.bytes) : '');
    this._rows = [...this._rows, ...rows];
  }

  private _take(rows: IRow[], colours: string): void {
    let held = colours;
    for (const row of rows) {
      row.colours = held;
      held = carriedColours(held, row.bytes);
      this._seen += row.bytes.length;
    }
  }

  private _drop(row: IRow | undefined): void {
    this._seen -= row?.bytes.length ?? 0;
  }

  private _isTooMuch(): boolean {
    return this._rows.length > MAX_ROWS || this._seen > MAX_BYTES;
  }

  /** Give up rows at the begin as long as there are too many, but no more than so many. */
  private _giveUpFirst(most = Infinity): void {
    let count = 0;
    while (count < most && (this._rows.length - count > MAX_ROWS || this._seen > MAX_BYTES)) {
      this._drop(this._rows[count++]);
    }
    this._rows.splice(0, count);
  }

  private _giveUpLast(): void {
    while (this._isTooMuch()) {
      this._drop(this._rows.pop());
      const last = this._rows[this._rows.length - 1];
      this._forget(last.end, last.goesOn);
    }
  }

  /** Go on behind a byte, with nothing of what follows it. */
  private _forget(end: number, isContinued: boolean): void {
    this._end = end;
    this._rest = { start: end, bytes: NONE, isContinued };
  }

  private _rows: IRow[] = [];
  private _seen = 0;
  private _end = 0;
  private _isText = true;
  private _rest: IRemainder = { start: 0, bytes: new Uint8Array(), isContinued: false };
}

const NONE = new Uint8Array();
const WHOLE = { skip: 0, isContinued: false };

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  if (first.length === 0) {
    return second;
  }
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
