// A line as the path of a small picture: pure functions.

import type { ISeriesPoints } from '../../charts/downsample';
import { downsample } from '../../charts/downsample';

/** Pixels of the picture. */
export const [WIDTH, HEIGHT] = [96, 18];

/** Parts of the time; of each, what is highest and lowest is drawn. */
const PIECES = 32;

/**
 * The path (SVG's `d`) through points, from the left edge to the right one; where a value is not known it breaks.
 *
 * `isFromZero` says that the lower edge is nothing; it is the lowest value otherwise.
 */
export function svgPath(points: ISeriesPoints, isFromZero: boolean): string {
  const { at, values } = downsample(points, -Infinity, Infinity, PIECES);
  const known = values.filter((value): value is number => value !== null);
  if (known.length === 0) {
    return '';
  }
  const low = isFromZero ? Math.min(0, ...known) : Math.min(...known);
  const high = Math.max(...known);
  const begin = at[0];
  const span = at[at.length - 1] - begin;
  const x = (moment: number): number => (span > 0 ? ((moment - begin) / span) * WIDTH : WIDTH / 2);
  const y = (value: number): number =>
    high > low ? 1 + (1 - (value - low) / (high - low)) * (HEIGHT - 2) : HEIGHT / 2;
  let isDown = false;
  return at
    .map((moment, index) => {
      const value = values[index];
      const order = isDown ? 'L' : 'M';
      isDown = value !== null;
      return value === null ? '' : `${order}${x(moment).toFixed(1)} ${y(value).toFixed(1)}`;
    })
    .join('');
}
