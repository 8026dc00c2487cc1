// The controls of the charts: a list to choose from, and the legend of a chart, which hides and shows its lines.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { lastKnownValue, valueAt } from './downsample';
import type { IPanel } from './panels';
import { seriesColour, seriesDash } from './style';
import { formatValue } from './units';

interface ISelectProps {
  label: string;
  value: string;
  choices: readonly (readonly [value: string, label: string])[];
  onChange: (value: string) => void;
}

export function Select({ label, value, choices, onChange }: ISelectProps): JSX.Element {
  return (
    <label className="jp-smx-charts-choice">
      {label}
      <select value={value} onChange={event => onChange(event.target.value)}>
        {choices.map(([one, words]) => (
          <option key={one} value={one}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

interface ILegendProps {
  trans: TranslationBundle;
  panel: IPanel;
  hidden: ReadonlySet<string>;
  /** The moment whose values are shown, in seconds since the epoch; null shows the newest numbers until `to`. */
  moment: number | null;
  to: number;
  onToggle: (key: string) => void;
}

/** The lines of a chart with their values; a button each, which takes the line away and brings it back. */
export function Legend({ panel, hidden, moment, to, trans, onToggle }: ILegendProps): JSX.Element {
  return (
    <ul className="jp-smx-legend" aria-label={trans.__('Lines of %1', panel.title)}>
      {panel.lines.map(({ line, label }, turn) => {
        const value = moment === null ? lastKnownValue(line, to) : valueAt(line, moment);
        return (
          <li key={line.key}>
            <button
              type="button"
              aria-pressed={!hidden.has(line.key)}
              onClick={() => onToggle(line.key)}
            >
              <svg width="28" height="8" aria-hidden="true">
                <line
                  x1="0"
                  x2="28"
                  y1="4"
                  y2="4"
                  style={{ stroke: seriesColour(turn) }}
                  strokeDasharray={seriesDash(turn).join(' ')}
                />
              </svg>
              <span className="jp-smx-legend-name">{label}</span>
              <span className="jp-smx-legend-value">
                {value === null ? trans.__('unknown') : formatValue(value, panel.unit, trans)}
              </span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}
