// An array of jobs as a line: its title, counts in words, and a small mark for each task.

import type { TranslationBundle } from '@jupyterlab/translation';
import { deleteIcon, stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ArrayCounts } from '../_types';
import type { IArrayGroup } from '../state/arrays';
import { arrayCounts, arrayStatus, formatArrayStatus } from '../state/arrays';
import { FoldButton } from './foldButton';
import { InlineList } from './inlineText';
import { IconButton } from './jobButtons';
import { JobName } from './jobName';
import { JobDuration } from './jobStatus';
import type { RowAttributes } from './virtualList';

/** What can be done to an array; a button whose act is not there is not there. */
export interface IArrayActions {
  onStopArray?: (row: IArrayGroup) => void;
  onDeleteArray?: (row: IArrayGroup) => void;
}

interface ITasksRowProps extends IArrayActions {
  row: { array: IArrayGroup; isOpen: boolean };
  now: number;
  trans: TranslationBundle;
  place: RowAttributes;
  isCurrent: boolean;
  onFold: (id: string, isOpen: boolean) => void;
  /** The server does not answer: its button does nothing. */
  isDisabled: boolean;
}

/** One row for all tasks of an array; under it stand those that are listed, while it is open. */
export function ArrayRow(props: ITasksRowProps): JSX.Element {
  const { row, now, trans, place, isCurrent, onFold } = props;
  const { array, isOpen } = row;
  const status = arrayStatus(array);
  const ends = array.tasks.map(task => task.ended_at ?? now);
  const whole = {
    status,
    created_at: Math.min(...array.tasks.map(task => task.created_at)),
    ended_at: status === 'InProgress' ? null : Math.max(...ends)
  };
  const isPart = isOpen && array.tasks.length < array.size;
  return (
    <li className="jp-smx-row" data-array={array.id} data-status={status} {...place}>
      <FoldButton
        isOpen={isOpen}
        label={trans.__('Tasks of %1', array.name)}
        tabIndex={isCurrent ? 0 : -1}
        onFold={() => onFold(array.id, !isOpen)}
      />
      <div className="jp-smx-row-text">
        <div className="jp-smx-row-title">
          <JobName name={array.title ? `${array.title} · ${array.name}` : array.name} />
        </div>
        <CountBar counts={arrayCounts(array)} />
        <InlineList
          words={[
            formatArrayStatus(array, trans),
            <JobDuration key="time" job={whole} now={now} trans={trans} />,
            isPart ? trans.__('%1 listed', array.tasks.length) : ''
          ]}
        />
      </div>
      <ArrayButtons {...props} status={status} />
    </li>
  );
}

function ArrayButtons(props: ITasksRowProps & { status: string }): JSX.Element | null {
  const { row, trans, isCurrent, isDisabled, status, onStopArray, onDeleteArray } = props;
  const isLive = status === 'InProgress';
  const act = isLive ? onStopArray : onDeleteArray;
  const { name } = row.array;
  return act ? (
    <span className="jp-smx-row-buttons jp-mod-over">
      <IconButton
        label={
          isLive
            ? trans.__('Stop all tasks of %1', name)
            : trans.__('Delete the listed tasks of %1', name)
        }
        icon={isLive ? stopIcon : deleteIcon}
        tabIndex={isCurrent ? 0 : -1}
        isDisabled={isDisabled}
        onClick={() => act(row.array)}
      />
    </span>
  ) : null;
}

/** Tasks that still have a field of their own in the bar. */
const FIELDS = 24;

/** How many tasks are where, as a bar; the words under it say the same. */
function CountBar({ counts }: { counts: ArrayCounts }): JSX.Element {
  const parts: [string, number][] = [
    ['Completed', counts.completed],
    ['Failed', counts.failed],
    ['Stopped', counts.stopped],
    ['InProgress', counts.running],
    ['Pending', counts.pending]
  ];
  const sum = parts.reduce((all, [, count]) => all + count, 0);
  const fields = parts
    .filter(([, count]) => count > 0)
    .map(part => (sum > FIELDS ? [part] : Array.from({ length: part[1] }, () => [part[0], 1])))
    .reduce<(string | number)[][]>((all, some) => [...all, ...some], []);
  return (
    <div className="jp-smx-count-bar" aria-hidden="true">
      {fields.map(([status, count], index) => (
        <span key={index} data-status={status} style={{ flexGrow: Number(count) }} />
      ))}
    </div>
  );
}
