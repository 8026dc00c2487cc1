// The line of a card before its job exists: the controller starts, or the submission failed.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { NAME_LIMIT, plainText } from '../format/plainText';
import { STATUS_ICONS, WAITING_ICON } from '../format/statusIcons';
import type { Submission } from './cardSnapshot';

/** Seconds after which the kernel gives the start up; an older card is of a notebook that was saved meanwhile. */
const START_LIMIT = 120;

export interface IStartLineProps {
  name: string;
  submission: Submission;
  /** Seconds since the kernel made the card. */
  age: number;
  trans: TranslationBundle;
}

export function StartLine({ name, submission, age, trans }: IStartLineProps): JSX.Element {
  const status = submission === 'failed' ? 'Failed' : 'Pending';
  return (
    <div
      className="jp-smx-card-line"
      role="group"
      aria-label={trans.__('Job %1', plainText(name, NAME_LIMIT))}
    >
      <span className="jp-smx-mark" data-status={status} aria-hidden="true">
        {submission === 'failed' ? STATUS_ICONS.Failed : WAITING_ICON}
      </span>
      <span className="jp-smx-name" title={name}>
        <bdi>{plainText(name, NAME_LIMIT)}</bdi>
      </span>
      <span className="jp-smx-words" role="status" aria-live="polite">
        {describeSubmission(submission, age, trans)}
      </span>
    </div>
  );
}

/** What a card says of a submission that has no job, so many seconds after the kernel made the card. */
export function describeSubmission(
  submission: Submission,
  age: number,
  trans: TranslationBundle
): string {
  if (submission === 'failed') {
    return trans.__('The submission failed: see the error below.');
  }
  return age > START_LIMIT
    ? trans.__('The notebook was saved while the controller started; this server has no such job.')
    : trans.__('Starting the controller…');
}
