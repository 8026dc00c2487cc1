// The buttons of rows: what can be done to one job.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';
import { deleteIcon, runIcon, stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { JobSummary } from '../_types';
import { isFinal } from '../state/state';
import { compareIcon } from './icons';

/** The actions on a job; without a callback, a button is not drawn. */
export interface IJobActions {
  onStop?: (job: JobSummary) => void;
  onDelete?: (job: JobSummary) => void;
  onOpen?: (job: JobSummary) => void;
  onRerun?: (job: JobSummary) => void;
  onCompare?: (job: JobSummary) => void;
}

interface IJobButtonsProps extends IJobActions {
  job: JobSummary;
  trans: TranslationBundle;
  /** Only the buttons of the current row can be tabbed to. */
  isCurrent: boolean;
  /** The server does not answer: the buttons do nothing. */
  isDisabled: boolean;
}

/** A running job can be stopped; a finished one be run again, compared and deleted. */
export function JobButtons(props: IJobButtonsProps): JSX.Element {
  const { job, trans, isCurrent, isDisabled, ...acts } = props;
  const common = { job, isCurrent, isDisabled };
  if (!isFinal(job)) {
    return (
      <span className="jp-smx-row-buttons jp-mod-over">
        <ActButton
          label={trans.__('Stop %1', job.name)}
          icon={stopIcon}
          act={acts.onStop}
          {...common}
          isDisabled={isDisabled || job.status === 'Stopping'}
        />
      </span>
    );
  }
  return (
    <span className="jp-smx-row-buttons jp-mod-over">
      <ActButton
        label={trans.__('Rerun %1', job.name)}
        icon={runIcon}
        act={acts.onRerun}
        {...common}
      />
      <ActButton
        label={trans.__('Compare %1 with another job', job.name)}
        icon={compareIcon}
        act={acts.onCompare}
        {...common}
      />
      <ActButton
        label={trans.__('Delete %1', job.name)}
        icon={deleteIcon}
        act={acts.onDelete}
        {...common}
      />
    </span>
  );
}

function ActButton(props: {
  job: JobSummary;
  isCurrent: boolean;
  label: string;
  icon: LabIcon;
  act?: (job: JobSummary) => void;
  isDisabled?: boolean;
}): JSX.Element | null {
  const { job, isCurrent, label, icon, act, isDisabled } = props;
  return act ? (
    <IconButton
      label={label}
      icon={icon}
      tabIndex={isCurrent ? 0 : -1}
      isDisabled={isDisabled}
      onClick={() => act(job)}
    />
  ) : null;
}

export function StopButton(props: {
  job: JobSummary;
  trans: TranslationBundle;
  isDisabled?: boolean;
  onStop: (job: JobSummary) => void;
}): JSX.Element {
  const { job, trans, isDisabled = false, onStop } = props;
  return (
    <IconButton
      label={trans.__('Stop %1', job.name)}
      icon={stopIcon}
      isDisabled={isDisabled || job.status === 'Stopping'}
      onClick={() => onStop(job)}
    />
  );
}

/**
 * A button with an icon; `label` is its accessible name and its tooltip.
 *
 * A disabled button keeps the focus; otherwise keyboard users would lose their place while the action runs.
 */
export function IconButton(props: {
  label: string;
  icon: LabIcon;
  tabIndex?: number;
  isDisabled?: boolean;
  onClick: () => void;
}): JSX.Element {
  const { label, icon, tabIndex, isDisabled, onClick } = props;
  return (
    <button
      type="button"
      className="jp-smx-button jp-smx-icon-button"
      aria-label={label}
      title={label}
      tabIndex={tabIndex}
      aria-disabled={isDisabled}
      onClick={isDisabled ? undefined : onClick}
    >
      <icon.react tag="span" width="14px" height="14px" />
    </button>
  );
}
