// Why a job failed, the same in the card, the job view and the log: the title, the cause, the cure and its line to copy.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { IFailureText } from '../format/failureText';
import { CopyButton } from './copyButton';

interface IFailureNoticeProps {
  failure: IFailureText;
  /** Whether the title is shown here; a view that shows the status of the job has it there. */
  hasTitle: boolean;
  trans: TranslationBundle;
}

export function FailureNotice({
  failure,
  hasTitle,
  trans
}: IFailureNoticeProps): JSX.Element | null {
  const { title, cause, cure, line } = failure;
  if (!hasTitle && !cause && !cure) {
    return null;
  }
  return (
    <div className="jp-smx-failure" role="group" aria-label={trans.__('Reason of the failure')}>
      {hasTitle ? <p className="jp-smx-failure-title">{title}</p> : null}
      {cause ? (
        <p className="jp-smx-reason" dir="auto">
          {cause}
        </p>
      ) : null}
      {cure ? (
        <p className="jp-smx-cure" dir="auto">
          {cure}
        </p>
      ) : null}
      {line ? (
        <div className="jp-smx-cure-line">
          <code dir="ltr">{line}</code>
          <CopyButton text={line} label={trans.__('Copy')} trans={trans} />
        </div>
      ) : null}
    </div>
  );
}
