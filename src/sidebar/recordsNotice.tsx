// Says where the records of jobs are, while they end with the server's machine.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

export interface IRecordsNoticeProps {
  /** The sentences of the server; empty where the records are in the data folder. */
  note: string;
  trans: TranslationBundle;
}

export function RecordsNotice({ note, trans }: IRecordsNoticeProps): JSX.Element | null {
  return note ? (
    <details className="jp-smx-notice jp-smx-records">
      <summary>
        {trans.__('The list of jobs is lost when this machine or container is deleted')}
      </summary>
      <p>{note}</p>
    </details>
  ) : null;
}
