// A few small bars: how a figure came to where it is. The number beside them says it to everybody.

import React from 'react';

import { TREND_LENGTH } from '../state/trends';

interface ISparkProps {
  values: readonly number[];
  /** What a full bar is, unless a value is more. */
  full: number;
}

/** Pixels of a bar with the space behind it, and of the tallest one. */
const [WIDTH, HEIGHT] = [4, 10];

export function Sparkline({ values, full }: ISparkProps): JSX.Element | null {
  if (values.length === 0) {
    return null;
  }
  const top = Math.max(full, ...values);
  const begin = (TREND_LENGTH - values.length) * WIDTH;
  return (
    <svg
      className="jp-smx-spark"
      viewBox={`0 0 ${TREND_LENGTH * WIDTH} ${HEIGHT}`}
      aria-hidden="true"
      focusable="false"
    >
      {/* Before it was heard, a line stands where bars will be. */}
      <rect x={0} y={HEIGHT - 1} width={Math.max(0, begin - 1)} height={1} opacity={0.4} />
      {values.map((value, index) => {
        const height = Math.max(1, (HEIGHT * value) / top);
        return (
          <rect
            key={index}
            x={begin + index * WIDTH}
            y={HEIGHT - height}
            width={WIDTH - 1}
            height={height}
          />
        );
      })}
    </svg>
  );
}
