// The card of an array: its counts in words, a mark for each task, what can be done to it, and its tasks when unfolded.

import type { TranslationBundle } from '@jupyterlab/translation';
import { launchIcon, listIcon, runIcon, stopIcon } from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import type { JobSummary } from '../_types';
import { CommandIDs } from '../commands/commandIds';
import { commandRunner } from '../commands/commandRunner';
import { FoldButton } from '../components/foldButton';
import { IconButton } from '../components/jobButtons';
import { JobDuration, StatusIcon } from '../components/jobStatus';
import { formatStep } from '../format/jobText';
import { NAME_LIMIT, plainText } from '../format/plainText';
import type { IArraySnapshot } from '../state/arrays';
import {
  cardCounts,
  currentTaskStates,
  formatCardCounts,
  formatTaskState,
  isArrayFinal,
  listedTasks,
  mainTask,
  mayBeStale,
  taskName
} from '../state/arrays';
import { describeStaleness, isReachable } from '../state/connectionState';
import type { IState } from '../state/state';
import { Stale } from './cardLine';

/** Marks on one line, and tasks in the list; the words count the others all the same. */
const SHOWN = 200;

const MARKS: Record<string, [string, string]> = {
  c: ['▣', 'Completed'],
  f: ['✗', 'Failed'],
  s: ['■', 'Stopped'],
  r: ['▨', 'InProgress'],
  p: ['▢', 'Pending']
};

interface IArrayCardProps {
  name: string;
  array: IArraySnapshot;
  state: IState;
  now: number;
  /** From when it is, where the page cannot follow it. */
  saved: string;
  /** Null if this server does not have the array. */
  commands: CommandRegistry | null;
  isOpen: boolean;
  trans: TranslationBundle;
  onFold: () => void;
}

export function ArrayCard(props: IArrayCardProps): JSX.Element {
  const { name, array, state, now, saved, isOpen, trans, onFold } = props;
  const states = currentTaskStates(array, state.jobs.values());
  const stale = isArrayFinal(states) ? '' : describeStaleness(state, now, trans);
  const tasks = listedTasks(state, array.id);
  return (
    <>
      <div className="jp-smx-card-line" role="group" aria-label={trans.__('Array %1', name)}>
        {tasks.length > 0 ? (
          <FoldButton isOpen={isOpen} label={trans.__('Tasks of %1', name)} onFold={onFold} />
        ) : null}
        <ArrayName {...props} />
        <span className="jp-smx-words" role="status" aria-live="polite">
          {formatCardCounts(cardCounts(array, state), trans)}
        </span>
        <TaskMarks name={name} states={states} trans={trans} />
        <Stale saved={mayBeStale(array, state) ? saved : ''} stale={stale} />
        <ArrayButtons {...props} tasks={tasks} />
      </div>
      {isOpen && tasks.length > 0 ? <TaskList {...props} tasks={tasks} /> : null}
    </>
  );
}

function ArrayName({ name, array }: IArrayCardProps): JSX.Element {
  const whole = array.title ? `${array.title} · ${name}` : name;
  return (
    <span className="jp-smx-name" title={whole}>
      <bdi>{plainText(whole, NAME_LIMIT)}</bdi>
    </span>
  );
}

function TaskMarks(props: { name: string; states: string; trans: TranslationBundle }): JSX.Element {
  const { name, states, trans } = props;
  const shown = [...states].slice(0, SHOWN);
  return (
    <span role="list" aria-label={trans.__('States of the tasks of %1', name)}>
      {shown.map((state, index) => {
        const [mark, status] = MARKS[state] ?? MARKS.p;
        const words = trans.__('task %1: %2', index, formatTaskState(state, trans));
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

type ITasksProps = IArrayCardProps & { tasks: readonly JobSummary[] };

/** Stop what runs, run again what failed, and open the task that matters most. */
function ArrayButtons(props: ITasksProps): JSX.Element | null {
  const { name, array, state, tasks, trans } = props;
  const { pending, running } = cardCounts(array, state);
  const failed = tasks.filter(task => task.status === 'Failed').length;
  const task = mainTask(tasks);
  if (!task) {
    return null;
  }
  return (
    <span className="jp-smx-row-buttons">
      {pending + running > 0 ? (
        <CommandButton
          {...props}
          command={CommandIDs.stopArray}
          of={array}
          label={trans.__('Stop all tasks of %1', name)}
          icon={stopIcon}
        />
      ) : null}
      {failed > 0 ? (
        <CommandButton
          {...props}
          command={CommandIDs.rerunFailedTasks}
          of={array}
          label={trans._n(
            'Rerun the failed task of %2',
            'Rerun %1 failed tasks of %2',
            failed,
            name
          )}
          icon={runIcon}
        />
      ) : null}
      <TaskButtons {...props} task={task} />
    </span>
  );
}

/** The log and the view of one task. */
function TaskButtons(props: ITasksProps & { task: JobSummary }): JSX.Element {
  const { task, trans } = props;
  return (
    <>
      <CommandButton
        {...props}
        command={CommandIDs.openLog}
        of={task}
        label={trans.__('Log of %1', task.name)}
        icon={listIcon}
      />
      <CommandButton
        {...props}
        command={CommandIDs.openJob}
        of={task}
        label={trans.__('Open %1', task.name)}
        icon={launchIcon}
      />
    </>
  );
}

function CommandButton(props: {
  state: IState;
  commands: CommandRegistry | null;
  command: string;
  of: { id: string };
  label: string;
  icon: LabIcon;
}): JSX.Element | null {
  const { state, commands, command, of, label, icon } = props;
  const act = commands && commandRunner(commands, command);
  return act ? (
    <IconButton
      label={label}
      icon={icon}
      isDisabled={!isReachable(state)}
      onClick={() => act({ id: of.id })}
    />
  ) : null;
}

function TaskList(props: ITasksProps): JSX.Element {
  const { name, now, tasks, trans } = props;
  const others = tasks.length - SHOWN;
  return (
    <div className="jp-smx-card-more">
      <ul className="jp-smx-list" aria-label={trans.__('Tasks of %1', name)}>
        {tasks.slice(0, SHOWN).map(task => (
          <li key={task.id} className="jp-smx-card-line" data-job={task.id}>
            <StatusIcon job={task} />
            <bdi>{plainText(taskName(task, trans), NAME_LIMIT)}</bdi>
            <span className="jp-smx-words">{formatStep(task, trans)}</span>
            <JobDuration job={task} now={now} trans={trans} />
            <span className="jp-smx-row-buttons">
              <TaskButtons {...props} task={task} />
            </span>
          </li>
        ))}
      </ul>
      {others > 0 ? <p>{trans.__('%1 more tasks are in the panel.', others)}</p> : null}
    </div>
  );
}
