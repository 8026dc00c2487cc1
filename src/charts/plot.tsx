// One chart on a canvas. The only file that knows uPlot, so that it is loaded when the first chart is drawn.

import React, { useEffect, useRef } from 'react';
import uPlot from 'uplot';

import type { AlignedData } from './downsample';
import type { ICanvasTheme } from './style';
import { GRID_DASH, onThemeChange, readCanvasTheme, seriesDash } from './style';
import type { Unit } from './units';
import { BYTE_TICK_STEPS, formatTimeTicks, TIME_TICK_STEPS } from './units';

/** What is drawn: seconds since the beginning in the first column, and which turn of looks each line has. */
export interface IPlotProps {
  table: AlignedData;
  turns: readonly number[];
  from: number;
  to: number;
  isFromZero: boolean;
  unit: Unit;
  /** The charts that share a pointer. */
  group: string;
  timeLabel: string;
  valueMarks: (marks: readonly number[]) => string[];
  timeWords: (seconds: number) => string;
  onZoom: (from: number, to: number) => void;
  onWhole: () => void;
  onPoint: (moment: number | null) => void;
}

const HEIGHT = 168;
/** Pixels beside the drawing, equal for all charts, so that a moment stands at the same place in each. */
const [VALUES, TIMES, MARK] = [72, 44, 5];
/** Pixels between two marks, and below which a drag was meant as a click. */
const [SPACE_ACROSS, SPACE_UP, DRAG] = [72, 26, 5];
/** Seconds; of several points at the very end of the axis uPlot sees only the first. */
const HAIR = 1e-6;

export function Plot(props: IPlotProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  // Hooks of uPlot are given once, and ask for what holds when they are called.
  const now = useRef(props);
  now.current = props;
  const looks = props.turns.join();

  useEffect(() => {
    const node = place.current;
    if (node === null) {
      return;
    }
    const draw = (): void => {
      plot.current?.destroy();
      const { table } = now.current;
      plot.current = new uPlot(
        optionsOf(now, readCanvasTheme(node), node.clientWidth),
        table,
        node
      );
    };
    draw();
    const endRepaint = onThemeChange(draw);
    const sizes = new ResizeObserver(() => {
      if (node.clientWidth > 0 && node.clientWidth !== plot.current?.width) {
        plot.current?.setSize({ width: node.clientWidth, height: HEIGHT });
      }
    });
    sizes.observe(node);
    return () => {
      sizes.disconnect();
      endRepaint();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [looks, props.isFromZero]);

  useEffect(() => {
    if (plot.current && plot.current.data !== props.table) {
      plot.current.setData(props.table);
    }
  }, [props.table, props.from, props.to]);

  return <div className="jp-smx-plot" ref={place} aria-hidden="true" />;
}

function optionsOf(
  now: { current: IPlotProps },
  paint: ICanvasTheme,
  width: number
): uPlot.Options {
  const { group, turns, isFromZero } = now.current;
  return {
    width: Math.max(1, width),
    height: HEIGHT,
    padding: [10, 16, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: group },
      y: false,
      drag: { x: true, y: false, setScale: false, dist: DRAG },
      bind: {
        dblclick: () => () => {
          now.current.onWhole();
          return null;
        }
      }
    },
    scales: {
      x: { time: false, range: () => [now.current.from, now.current.to + HAIR] },
      y: { range: (_plot, low, high) => roomFor(low, high, isFromZero) }
    },
    series: [{}, ...turns.map(turn => lineOf(turn, paint))],
    axes: [timeAxis(now, paint), valueAxis(now, paint)],
    hooks: {
      setSelect: [plot => selected(plot, now)],
      setCursor: [plot => now.current.onPoint(pointedAt(plot))]
    }
  };
}

function lineOf(turn: number, paint: ICanvasTheme): uPlot.Series {
  return { stroke: paint.line(turn), dash: seriesDash(turn), width: 1.5, points: { size: 6 } };
}

function axisOf(paint: ICanvasTheme): uPlot.Axis {
  const { text, grid, font } = paint;
  return {
    stroke: text,
    font,
    labelFont: font,
    grid: { stroke: grid, width: 1, dash: GRID_DASH },
    ticks: { stroke: grid, width: 1, size: MARK }
  };
}

function timeAxis(now: { current: IPlotProps }, paint: ICanvasTheme): uPlot.Axis {
  return {
    ...axisOf(paint),
    size: TIMES - 18,
    label: now.current.timeLabel,
    labelSize: 18,
    labelGap: 0,
    space: SPACE_ACROSS,
    incrs: TIME_TICK_STEPS,
    values: (_plot, marks) => formatTimeTicks(marks, now.current.timeWords)
  };
}

function valueAxis(now: { current: IPlotProps }, paint: ICanvasTheme): uPlot.Axis {
  const { unit } = now.current;
  return {
    ...axisOf(paint),
    ...(unit === 'bytes' || unit === 'rate' ? { incrs: BYTE_TICK_STEPS } : {}),
    size: VALUES,
    space: SPACE_UP,
    values: (_plot, marks) => now.current.valueMarks(marks)
  };
}

/** The ends of an axis: what is used begins at nothing, and a line that never moves has room on both sides. */
function roomFor(low: number | null, high: number | null, isFromZero: boolean): uPlot.Range.MinMax {
  if (low === null || high === null) {
    return [0, 1];
  }
  if (isFromZero) {
    return [0, high > 0 ? high * 1.08 : 1];
  }
  const room = (high - low) * 0.08 || Math.abs(high) * 0.08 || 1;
  return [low - room, high + room];
}

function selected(plot: uPlot, now: { current: IPlotProps }): void {
  const { left, width } = plot.select;
  if (width >= DRAG) {
    now.current.onZoom(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }
}

function pointedAt(plot: uPlot): number | null {
  const { left } = plot.cursor;
  return left === undefined || left === null || left < 0 ? null : plot.posToVal(left, 'x');
}
