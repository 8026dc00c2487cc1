// What stands around the drawings of a view: a legend for each, and the same numbers as tables.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { lastKnownValue, valueAt } from './downsample';
import type { IPanel } from './panels';
import { computeStatistics } from './statistics';
import { seriesColour, seriesDash } from './style';
import type { IVisibleRange } from './summary';
import { formatTimeOffset, formatValue } from './units';
import type { IChartsViewModel, IPanelDrawing } from './viewModel';
import { sampleTimes } from './viewModel';

/** Rows of the table of values over time. */
const ROWS = 50;

interface IWithWords {
  trans: TranslationBundle;
}

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

interface ILegendProps extends IWithWords {
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

interface ITablesProps extends IWithWords {
  viewModel: IChartsViewModel;
}

/** Everything that the charts show, as numbers; made anew with the scene, not with each step of the pointer. */
export const DataTables = React.memo(({ viewModel, trans }: ITablesProps): JSX.Element => {
  const panels = viewModel.drawings.map(drawing => drawing.panel);
  return (
    <div>
      <StatisticsTable panels={panels} range={viewModel.range} trans={trans} />
      <SamplesTable drawings={viewModel.drawings} range={viewModel.range} trans={trans} />
    </div>
  );
});

interface IStatisticsTableProps extends IWithWords {
  panels: readonly IPanel[];
  range: IVisibleRange;
}

function StatisticsTable({ panels, range, trans }: IStatisticsTableProps): JSX.Element {
  const heads = [
    trans.__('Chart'),
    trans.__('Line'),
    trans.__('Newest'),
    trans.__('Average'),
    trans.__('Lowest'),
    trans.__('Highest'),
    trans.__('Values'),
    trans.__('No numbers')
  ];
  return (
    <Table caption={trans.__('Figures of the time that is shown')} heads={heads} texts={2}>
      <tbody>
        {panels.flatMap(panel =>
          panel.lines.map(({ line, label }) => {
            const found = computeStatistics(line, range.from, range.to);
            const words = (value: number | undefined): string =>
              value === undefined ? '–' : formatValue(value, panel.unit, trans);
            return (
              <tr key={line.key}>
                <th scope="row" className="jp-smx-text">
                  {panel.title}
                </th>
                <td className="jp-smx-text">{label}</td>
                <td>{words(found?.newest)}</td>
                <td>{words(found?.mean)}</td>
                <td>{words(found?.lowest)}</td>
                <td>{words(found?.highest)}</td>
                <td>{found?.count ?? 0}</td>
                <td>{found?.unknown ?? 0}</td>
              </tr>
            );
          })
        )}
      </tbody>
    </Table>
  );
}

interface ISamplesTableProps extends IWithWords {
  drawings: readonly IPanelDrawing[];
  range: IVisibleRange;
}

function SamplesTable({ drawings, range, trans }: ISamplesTableProps): JSX.Element {
  const columns = drawings.flatMap(({ panel }) =>
    panel.lines.map(({ line, label }) => ({ panel, line, label }))
  );
  const lines = columns.map(column => column.line);
  const heads = columns.map(({ panel, label }) =>
    panel.lines.length === 1 ? panel.title : trans.__('%1: %2', panel.title, label)
  );
  return (
    <Table
      caption={trans.__('Values over time, at most %1 of them', ROWS)}
      heads={[trans.__('Since the start'), ...heads]}
      texts={1}
    >
      <tbody>
        {sampleTimes(lines, range, ROWS).map(moment => (
          <tr key={moment}>
            <th scope="row" className="jp-smx-text">
              {formatTimeOffset(moment - range.begin, trans)}
            </th>
            {columns.map(({ panel, line }) => {
              const value = valueAt(line, moment);
              return (
                <td key={line.key}>
                  {value === null ? '–' : formatValue(value, panel.unit, trans)}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

interface ITableProps {
  caption: string;
  heads: readonly string[];
  /** How many columns hold words; the others hold numbers. */
  texts: number;
  children: React.ReactNode;
}

/** A table that is moved sideways where it is too wide, also with keys. */
function Table({ caption, heads, texts, children }: ITableProps): JSX.Element {
  return (
    <div className="jp-smx-charts-table" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {heads.map((head, i) => (
              <th key={i} scope="col" className={i < texts ? 'jp-smx-text' : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        {children}
      </table>
    </div>
  );
}
