// Which part of the time is shown: pure functions of what was shown before.

import type { IVisibleRange } from './summary';

export interface ITimeRange {
  from: number;
  to: number;
}

/** Seconds below which nothing more is to be seen: a host is looked at once a second. */
const SHORTEST = 0.1;
/** Part of the time that an arrow moves by, and by which a plus makes it shorter. */
const [STEP, CLOSER] = [0.25, 0.5];

/** A part of the time that lies within it; null where that is all of it. */
export function clampRange(
  part: ITimeRange,
  span: { begin: number; end: number } | null
): ITimeRange | null {
  if (span === null) {
    return null;
  }
  const whole = span.end - span.begin;
  const length = Math.max(SHORTEST, part.to - part.from);
  if (length >= whole) {
    return null;
  }
  const from = Math.min(Math.max(span.begin, part.from), span.end - length);
  return { from, to: from + length };
}

/** What a key asks for: a part, null for all of the time, undefined where it asks for nothing. */
export function rangeForKey(
  key: string,
  { from, to }: IVisibleRange,
  span: { begin: number; end: number } | null
): ITimeRange | null | undefined {
  const length = to - from;
  const around = (factor: number): ITimeRange => {
    const middle = (from + to) / 2;
    return { from: middle - (factor * length) / 2, to: middle + (factor * length) / 2 };
  };
  switch (key) {
    case '0':
    case 'Escape':
      return null;
    case '+':
    case '=':
      return clampRange(around(CLOSER), span);
    case '-':
      return clampRange(around(1 / CLOSER), span);
    case 'ArrowLeft':
      return clampRange({ from: from - STEP * length, to: to - STEP * length }, span);
    case 'ArrowRight':
      return clampRange({ from: from + STEP * length, to: to + STEP * length }, span);
    default:
      return undefined;
  }
}
