// The parts that the sections of a job's view are made of: facts, tables, moments, lines of a diff.

import React from 'react';

import { formatMoment } from '../../format/numbers';
import { plainText } from '../../format/plainText';

export type TableCell = React.ReactNode;

/** Characters of a text in a table, as of a message or of the value of a variable. */
const CELL_LIMIT = 2000;

function plainCell(cell: TableCell): TableCell {
  return typeof cell === 'string' ? plainText(cell, CELL_LIMIT) : cell;
}

/** Names and values; a fact without a value is left out. */
export function DescriptionList({
  facts
}: {
  facts: readonly (readonly [string, TableCell])[];
}): JSX.Element {
  const said = facts.filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return (
    <dl className="jp-smx-facts">
      {said.map(([name, value]) => (
        <React.Fragment key={name}>
          <dt>{name}</dt>
          <dd>{plainCell(value)}</dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

export interface ITableProps {
  /** The accessible name. */
  label: string;
  head: readonly string[];
  rows: readonly (readonly TableCell[])[];
}

export function Table({ label, head, rows }: ITableProps): JSX.Element {
  return (
    // A wide table scrolls on its own; the tab index lets keyboard users scroll it, too.
    <div className="jp-smx-table-place" role="region" aria-label={label} tabIndex={0}>
      <table className="jp-smx-table">
        <thead>
          <tr>
            {head.map((name, index) => (
              <th key={index} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column}>{plainCell(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A part of a section under its heading. */
export function Subsection(props: { title: string; children: React.ReactNode }): JSX.Element {
  return (
    <section className="jp-smx-part">
      <h3>{props.title}</h3>
      {props.children}
    </section>
  );
}

/** A moment of the server's clock in this browser's time zone; seconds since the epoch. */
export function Timestamp({ at }: { at: number }): JSX.Element {
  const date = new Date(at * 1000);
  return <time dateTime={date.toISOString()}>{formatMoment(at)}</time>;
}

export function Monospace({ children }: { children: React.ReactNode }): JSX.Element {
  return <code className="jp-smx-mono">{children}</code>;
}

/** Lines of a unified diff: the sign at the beginning says the same as the colour. */
export function DiffLines({
  lines,
  label
}: {
  lines: readonly string[];
  label: string;
}): JSX.Element {
  // Lines above the first hunk name what is compared; a line of code may look like one of those.
  const first = lines.findIndex(line => line.startsWith('@@'));
  return (
    <pre className="jp-smx-diff" role="region" aria-label={label} tabIndex={0}>
      {lines.map((line, index) => {
        const Tag = index < first ? 'span' : tagOf(line);
        return (
          <Tag key={index} className="jp-smx-diff-line">
            {line}
            {'\n'}
          </Tag>
        );
      })}
    </pre>
  );
}

function tagOf(line: string): 'ins' | 'del' | 'span' {
  return line.startsWith('+') ? 'ins' : line.startsWith('-') ? 'del' : 'span';
}
