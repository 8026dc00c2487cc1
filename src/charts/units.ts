// Numbers of charts in words, each with its unit: pure functions, the same for axes, legends, tables and sentences.

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatClock, formatNumber, METRIC_DIGITS, toBinaryUnit } from '../format/numbers';

/** What the numbers of a panel are: percent of a core or GPU, bytes, bytes in a second, or whatever the job counts. */
export type Unit = 'percent' | 'bytes' | 'rate' | 'number';

/** Digits that a mark of an axis is told with at most; behind these there is noise. */
const MOST_DIGITS = 15;
const DAY = 86_400;

/** A value as it is told: `186 %`, `1.2 GiB`, `3.4 MiB/s`, `0.2134`. */
export function formatValue(
  value: number,
  unit: Unit,
  trans: TranslationBundle,
  digits = METRIC_DIGITS
): string {
  switch (unit) {
    case 'percent':
      return trans.__('%1 %', value < 10 ? trimmed(value, 1) : Math.round(value));
    case 'bytes':
      return bytes(value, trans);
    case 'rate':
      return trans.__('%1/s', bytes(value, trans));
    default:
      return formatNumber(value, digits);
  }
}

/** The words at the marks of an axis: where a metric hardly moves, with the digits that its steps take. */
export function formatValueTicks(
  marks: readonly number[],
  unit: Unit,
  trans: TranslationBundle
): string[] {
  const step = marks.length > 1 ? marks[1] - marks[0] : 0;
  const isTrue = (digits: number): boolean =>
    marks.every(mark => Math.abs(Number(formatNumber(mark, digits)) - mark) <= step / 100);
  let digits = METRIC_DIGITS;
  while (digits < MOST_DIGITS && !isTrue(digits)) {
    digits++;
  }
  return marks.map(mark => formatValue(mark, unit, trans, digits));
}

function bytes(value: number, trans: TranslationBundle): string {
  const [amount, name] = toBinaryUnit(value);
  return trans.__('%1 %2', trimmed(amount, amount < 10 ? 2 : 1), name);
}

function trimmed(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}

/** Seconds since a beginning: `00:31`, `1:00:31`, `2 d 1:00:31`; between whole seconds `00:00.25`. */
export function formatTimeOffset(seconds: number, trans: TranslationBundle): string {
  const days = Math.floor(Math.max(0, seconds) / DAY);
  if (days > 0) {
    return trans._n('%1 d %2', '%1 d %2', days, formatClock(seconds - days * DAY));
  }
  const rounded = Math.round(seconds * 100) / 100;
  const part = Math.round((rounded - Math.floor(rounded)) * 100);
  return part > 0
    ? `${formatClock(rounded)}.${String(part).padStart(2, '0')}`
    : formatClock(rounded);
}

/** The words under the marks of a time axis; nothing was before the beginning, only room. */
export function formatTimeTicks(
  marks: readonly number[],
  words: (seconds: number) => string
): string[] {
  return marks.map(mark => (mark < 0 ? '' : words(mark)));
}

/** Steps between two marks of an axis of bytes: a power of two gives short numbers of binary units. */
export const BYTE_TICK_STEPS = Array.from({ length: 51 }, (_, power) => 2 ** power);

/** Steps between two marks of a time axis, in seconds. */
export const TIME_TICK_STEPS = [
  0.01,
  0.02,
  0.05,
  0.1,
  0.2,
  0.5,
  1,
  2,
  5,
  10,
  15,
  30,
  60,
  120,
  300,
  600,
  900,
  1800,
  3600,
  7200,
  10_800,
  21_600,
  43_200,
  DAY,
  2 * DAY,
  5 * DAY,
  10 * DAY,
  30 * DAY,
  100 * DAY
];
