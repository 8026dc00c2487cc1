// An array of jobs as a line: its title, counts in words, and a small mark for each task.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ITasks } from '../arrays';
import { countWords, stateWord, tasksWords } from '../arrays';
import type { RowPlace } from './rows';

/** Marks on one line; the words count the others all the same. */
const SHOWN = 200;

const MARKS: Record<string, [string, string]> = {
  c: ['▣', 'Completed'],
  f: ['✗', 'Failed'],
  s: ['■', 'Stopped'],
  r: ['▨', 'InProgress'],
  p: ['▢', 'Pending']
};

export function ArrayLine(props: {
  name: string;
  title: string;
  states: string;
  trans: TranslationBundle;
}): JSX.Element {
  const { name, title, states, trans } = props;
  return (
    <div className="jp-smx-card-line" role="group" aria-label={trans.__('Array %1', name)}>
      <span className="jp-smx-name">{title || name}</span>
      <span className="jp-smx-words" role="status" aria-live="polite">
        {countWords(states, trans)}
      </span>
      <TaskMarks name={name} states={states} trans={trans} />
    </div>
  );
}

function TaskMarks(props: { name: string; states: string; trans: TranslationBundle }): JSX.Element {
  const { name, states, trans } = props;
  const shown = [...states].slice(0, SHOWN);
  return (
    <span role="list" aria-label={trans.__('Tasks of %1', name)}>
      {shown.map((state, index) => {
        const [mark, status] = MARKS[state] ?? MARKS.p;
        const words = trans.__('task %1 %2', index, stateWord(state, trans));
        return (
          <span
            key={index}
            role="listitem"
            className="jp-smx-mark"
            data-status={status}
            aria-label={words}
            title={words}
          >
            {mark}
          </span>
        );
      })}
      {states.length > SHOWN ? trans.__(' and %1 more', states.length - SHOWN) : null}
    </span>
  );
}

/** One row for the tasks of an array that stand in a list of jobs. */
export function TasksRow(props: {
  row: ITasks;
  trans: TranslationBundle;
  place: RowPlace;
}): JSX.Element {
  const { row, trans, place } = props;
  const names = row.tasks.map(task => task.name);
  return (
    <li className="jp-smx-row" data-array={row.id} {...place}>
      <div className="jp-smx-row-text">
        <div className="jp-smx-row-title">
          <span className="jp-smx-name" title={names.slice(0, 10).join(', ')}>
            {row.title ? `${row.title} · ${row.name}` : row.name}
          </span>
        </div>
        <div className="jp-smx-row-detail">{tasksWords(row, trans)}</div>
      </div>
    </li>
  );
}
