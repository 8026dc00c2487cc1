// What the charts show, as tables: statistics of each line, and values over time.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { valueAt } from './downsample';
import type { IPanel } from './panels';
import { computeStatistics } from './statistics';
import type { IVisibleRange } from './summary';
import { formatTimeOffset, formatValue } from './units';
import type { IChartsViewModel, IPanelDrawing } from './viewModel';
import { sampleTimes } from './viewModel';

/** Rows of the table of values over time. */
const ROWS = 50;

interface ITablesProps {
  trans: TranslationBundle;
  viewModel: IChartsViewModel;
}

/** All values of the charts as numbers. Rendered again with the view model, not with each step of the pointer. */
export const DataTables = React.memo(({ viewModel, trans }: ITablesProps): JSX.Element => {
  const panels = viewModel.drawings.map(drawing => drawing.panel);
  return (
    <div>
      <StatisticsTable panels={panels} range={viewModel.range} trans={trans} />
      <SamplesTable drawings={viewModel.drawings} range={viewModel.range} trans={trans} />
    </div>
  );
});

interface IStatisticsTableProps {
  trans: TranslationBundle;
  panels: readonly IPanel[];
  range: IVisibleRange;
}

function StatisticsTable({ panels, range, trans }: IStatisticsTableProps): JSX.Element {
  const heads = [
    trans.__('Chart'),
    trans.__('Line'),
    trans.__('Latest'),
    trans.__('Average'),
    trans.__('Minimum'),
    trans.__('Maximum'),
    trans.__('Values'),
    trans.__('Not finite')
  ];
  return (
    <Table caption={trans.__('Statistics of the visible time range')} heads={heads} texts={2}>
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

interface ISamplesTableProps {
  trans: TranslationBundle;
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
      caption={trans.__('Values over time, up to %1 rows', ROWS)}
      heads={[trans.__('Since start'), ...heads]}
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
