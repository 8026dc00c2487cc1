// Durations and moments: tests/model/test_time_words.py reads the same table, so that Python and TypeScript agree.

import { nullTranslator } from '@jupyterlab/translation';

import {
  formatApproximateDuration,
  formatDuration,
  formatMoment,
  formatPreciseDuration
} from '../../format/numbers';
import table from './durations.json';

const trans = nullTranslator.load('jupyter_smx');

/** Seconds of a moment on this machine's clock. */
function seconds([year, month, ...rest]: number[]): number {
  const [day, hour, minute, second] = rest;
  return new Date(year, month - 1, day, hour, minute, second).getTime() / 1000;
}

it.each(table.duration as [number, string][])('a duration of %p s is %s', (duration, words) => {
  expect(formatDuration(duration, trans)).toBe(words);
});

it.each(table.precise as [number, string][])('a step of %p s is %s', (duration, words) => {
  expect(formatPreciseDuration(duration, trans)).toBe(words);
});

it.each(table.estimate as [number, string][])('an estimate of %p s is %s', (duration, words) => {
  expect(formatApproximateDuration(duration, trans)).toBe(words);
});

it.each(table.moment)('a moment is $words', ({ at, now, words }) => {
  expect(formatMoment(seconds(at), now === null ? undefined : seconds(now))).toBe(words);
});
