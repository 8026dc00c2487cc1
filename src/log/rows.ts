// Bytes of a log as rows: one for each line, as a terminal would show it in the end, or more where it is very long.

const NEWLINE = 10;
const RETURN = 13;
const ESCAPE = 27;

/** Bytes of a line in one row; what is longer goes on in the next, so that no line is too long for a page. */
export const MAX_ROW_BYTES = 8_192;

/** Orders of colour are kept for the rows that follow, unless somebody never ends them. */
const LONGEST_COLOURS = 120;

export interface IRow {
  /** The first byte, of what was drawn over as well. */
  start: number;
  /** The byte behind the last one, the line's end included. */
  end: number;
  /** What is seen of it. */
  bytes: Uint8Array;
  /** Orders of colour that came before it and hold. */
  colours: string;
  /** It is not the beginning of its line. */
  isContinued: boolean;
  /** Its line goes on behind it. */
  goesOn: boolean;
}

/** Bytes that have no line's end yet: from where they are a row, and what counts of them. */
export interface IRemainder {
  start: number;
  bytes: Uint8Array;
  isContinued: boolean;
}

/**
 * Make rows of bytes that end at `end`, the first of which begins at `rest.start`.
 *
 * The last of them, where no newline ends it, is given back as the rest, and is no row yet.
 */
export function splitRows(rest: IRemainder, end: number): { rows: IRow[]; rest: IRemainder } {
  const { bytes } = rest;
  const first = end - bytes.length;
  const rows: IRow[] = [];
  let { start, isContinued } = rest;
  let at = 0;
  for (
    let newline = bytes.indexOf(NEWLINE);
    newline >= 0;
    newline = bytes.indexOf(NEWLINE, newline + 1)
  ) {
    const line = bytes.subarray(at, newline);
    at = newline + 1;
    folded(
      { bytes: line, offset: first + at - 1 - line.length, start, end: first + at, isContinued },
      rows
    );
    start = first + at;
    isContinued = false;
  }
  const folds: IRow[] = [];
  folded({ bytes: bytes.subarray(at), offset: first + at, start, end, isContinued }, folds);
  const last = folds.pop();
  rows.push(...folds);
  return {
    rows,
    rest: {
      start: last?.start ?? end,
      bytes: withReturns(bytes.subarray(at), last?.bytes.length ?? 0),
      isContinued: last?.isContinued ?? false
    }
  };
}

/** The row that a rest is until more of it comes. */
export function remainderRow({ start, bytes, isContinued }: IRemainder, end: number): IRow {
  return { start, end, bytes: seenOf(bytes), colours: '', isContinued, goesOn: false };
}

/** Where the first row begins in bytes that begin anywhere: after a newline or, without one, with a character. */
export function findRowStart(bytes: Uint8Array): { skip: number; isContinued: boolean } {
  const newline = bytes.indexOf(NEWLINE);
  if (newline >= 0 && newline + 1 < bytes.length) {
    return { skip: newline + 1, isContinued: false };
  }
  let skip = 0;
  while (skip < 3 && isInCharacter(bytes[skip])) {
    skip++;
  }
  return { skip, isContinued: true };
}

/** Orders of colour that hold behind a row. */
export function carriedColours(colours: string, bytes: Uint8Array): string {
  if (!bytes.includes(ESCAPE)) {
    return colours;
  }
  // eslint-disable-next-line no-control-regex -- an order to a terminal begins with one
  const orders = LATIN.decode(bytes).match(/\u001b\[[\d;:]*m/g) ?? [];
  const held = orders.reduce((before, order) => {
    const [first, ...more] = order.slice(2, -1).split(';');
    const isReset = Number(first) === 0;
    return isReset ? (more.length > 0 ? order : '') : before + order;
  }, colours);
  return held.length > LONGEST_COLOURS ? '' : held;
}

/** Whether bytes are text: valid UTF-8 without the controls that no terminal is meant to get. */
export function isText(bytes: Uint8Array): boolean {
  for (const byte of bytes) {
    if (byte < 32 && !TEXT_CONTROLS.has(byte)) {
      return false;
    }
  }
  try {
    STRICT.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** Bell, backspace, tab, newline, vertical tab, form feed, return, escape. */
const TEXT_CONTROLS = new Set([7, 8, 9, 10, 11, 12, 13, 27]);
const STRICT = new TextDecoder('utf-8', { fatal: true });
const LATIN = new TextDecoder('latin1');

function isInCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** Without the returns at its end, which begin nothing. */
function trimmed(line: Uint8Array): Uint8Array {
  let stop = line.length;
  while (stop > 0 && line[stop - 1] === RETURN) {
    stop--;
  }
  return line.subarray(0, stop);
}

/** What is left of a line when each return began it anew; a copy, so that what was drawn over is not kept. */
function seenOf(line: Uint8Array): Uint8Array {
  const whole = trimmed(line);
  const drawnOver = whole.lastIndexOf(RETURN);
  return drawnOver < 0 ? whole : whole.slice(drawnOver + 1);
}

/** The last bytes that are seen, with the returns behind them: what comes next may be a newline. */
function withReturns(line: Uint8Array, seen: number): Uint8Array {
  return line.slice(Math.max(0, trimmed(line).length - seen));
}

/** A line, where its bytes are, and where its row begins and ends: with what was drawn over, and with its newline. */
interface ILine {
  bytes: Uint8Array;
  offset: number;
  start: number;
  end: number;
  isContinued: boolean;
}

/** Each row has bytes of its own, so that a short one does not keep the whole piece in which it came. */
function folded(line: ILine, rows: IRow[]): void {
  const seen = seenOf(line.bytes);
  const offset = line.offset + trimmed(line.bytes).length - seen.length;
  let { start, isContinued } = line;
  let at = 0;
  while (seen.length - at > MAX_ROW_BYTES) {
    const cut = characterBefore(seen, at + MAX_ROW_BYTES);
    const bytes = seen.slice(at, cut);
    rows.push({ start, end: offset + cut, bytes, colours: '', isContinued, goesOn: true });
    start = offset + cut;
    at = cut;
    isContinued = true;
  }
  const bytes = seen.slice(at);
  rows.push({ start, end: line.end, bytes, colours: '', isContinued, goesOn: false });
}

function characterBefore(bytes: Uint8Array, at: number): number {
  let begin = at;
  while (at - begin < 3 && isInCharacter(bytes[begin])) {
    begin--;
  }
  return begin;
}
