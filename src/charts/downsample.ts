// Columns of any length as columns that a screen can show: what is highest and lowest in each pixel stays.

import { lowerBound, upperBound } from './history';

type Value = number | null;

export interface ISeriesPoints {
  readonly at: readonly number[];
  readonly values: readonly Value[];
}

/** A table as uPlot reads it: moments, then a column for each line; undefined where only another line has a point. */
export type AlignedData = [number[], ...(Value | undefined)[][]];

/** Points for each piece of time: the first, the last, the lowest, the highest, and one where nothing is known. */
const PER_PIECE = 5;

/**
 * Give the points between two moments and one on either side, so that lines go on to the edges.
 *
 * What has more than five points in one of `pieces` equal parts of the time is reduced to those that a line through all
 * of them would touch there.
 */
export function downsample(
  points: ISeriesPoints,
  from: number,
  to: number,
  pieces: number
): ISeriesPoints {
  const { at, values } = points;
  const begin = Math.max(0, lowerBound(at, from) - 1);
  const end = Math.min(at.length, upperBound(at, to) + 1);
  if (end - begin <= PER_PIECE * pieces) {
    return { at: at.slice(begin, end), values: values.slice(begin, end) };
  }
  const found: { at: number[]; values: Value[] } = { at: [], values: [] };
  const width = (at[end - 1] - at[begin]) / pieces;
  let start = begin;
  for (let piece = 1; start < end; piece++) {
    const until = piece < pieces ? upperBound(at, at[begin] + piece * width) : end;
    for (const index of telling(values, start, Math.min(until, end))) {
      found.at.push(at[index]);
      found.values.push(values[index]);
    }
    start = Math.max(start, until);
  }
  return found;
}

/** The indices of the few points that say what many do. */
function telling(values: readonly Value[], start: number, end: number): number[] {
  if (end - start <= PER_PIECE) {
    return Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);
  }
  let [low, high, gap] = [-1, -1, -1];
  for (let i = start; i < end; i++) {
    const value = values[i];
    if (value === null) {
      gap = gap < 0 ? i : gap;
      continue;
    }
    low = low < 0 || value < (values[low] as number) ? i : low;
    high = high < 0 || value > (values[high] as number) ? i : high;
  }
  const found = new Set([start, low, high, gap, end - 1].filter(index => index >= 0));
  return [...found].sort((one, other) => one - other);
}

/** Bring lines with moments of their own into one table. */
export function alignSeries(lines: readonly ISeriesPoints[]): AlignedData {
  const at: number[] = [];
  const columns: (Value | undefined)[][] = lines.map(() => []);
  const heads = lines.map(() => 0);
  for (;;) {
    let next = Infinity;
    lines.forEach((line, i) => {
      next = heads[i] < line.at.length ? Math.min(next, line.at[heads[i]]) : next;
    });
    if (next === Infinity) {
      return [at, ...columns];
    }
    at.push(next);
    lines.forEach((line, i) => {
      const isHere = heads[i] < line.at.length && line.at[heads[i]] === next;
      columns[i].push(isHere ? line.values[heads[i]++] : undefined);
    });
  }
}

/** What a line says at a moment: its newest point until then, which may be no number. */
export function valueAt({ at, values }: ISeriesPoints, moment: number): Value {
  const index = upperBound(at, moment) - 1;
  return index < 0 ? null : values[index];
}

/** The newest number of a line until a moment. */
export function lastKnownValue({ at, values }: ISeriesPoints, moment: number): Value {
  let index = upperBound(at, moment) - 1;
  while (index >= 0 && values[index] === null) {
    index--;
  }
  return index < 0 ? null : values[index];
}
