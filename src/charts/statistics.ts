// Numbers that stand for a whole line: average, lowest, highest, first, newest.

import type { ITimeSeries } from './history';
import { lowerBound, upperBound } from './history';

export interface IStatistics {
  /** Points between the two moments, and how many of them are no numbers. */
  count: number;
  unknown: number;
  /** The average over time: what held for longer counts for more. */
  mean: number;
  lowest: number;
  highest: number;
  first: number;
  newest: number;
}

/** What was summed up last: several parts of a page say the same of a line, and a line may be long. */
const known = new WeakMap<ITimeSeries, { of: string; figures: IStatistics | null }>();

/** Sum up what a line says between two moments; null where it says nothing. */
export function computeStatistics(line: ITimeSeries, from: number, to: number): IStatistics | null {
  const of = `${from} ${to} ${line.at.length}`;
  let found = known.get(line);
  if (found?.of !== of) {
    found = { of, figures: summedUp(line, from, to) };
    known.set(line, found);
  }
  return found.figures;
}

function summedUp(line: ITimeSeries, from: number, to: number): IStatistics | null {
  const { at, values, kind } = line;
  const end = upperBound(at, to);
  const begin = lowerBound(at, from);
  const found = {
    count: end - begin,
    unknown: 0,
    mean: 0,
    lowest: Infinity,
    highest: -Infinity,
    first: NaN,
    newest: NaN
  };
  let [sum, whole] = [0, 0];
  for (let i = begin; i < end; i++) {
    const value = values[i];
    if (value === null) {
      found.unknown++;
      continue;
    }
    // A sample is the mean since the one before; what a job prints counts as often as it was printed.
    const weight = kind === 'metric' || i === 0 ? 1 : at[i] - at[i - 1];
    sum += weight * value;
    whole += weight;
    found.first = Number.isNaN(found.first) ? value : found.first;
    found.newest = value;
    found.lowest = Math.min(found.lowest, value);
    found.highest = Math.max(found.highest, value);
  }
  if (found.count === found.unknown) {
    return null;
  }
  found.mean = whole > 0 ? sum / whole : found.newest;
  return found;
}
