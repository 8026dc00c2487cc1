// Says that kernels of this page have jobs that the panel cannot list.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { IState } from '../state/state';
import { hasJobsElsewhere } from '../state/state';

interface IOtherRecordsNoticeProps {
  state: IState;
  trans: TranslationBundle;
}

export function OtherRecordsNotice({ state, trans }: IOtherRecordsNoticeProps): JSX.Element | null {
  return hasJobsElsewhere(state) ? (
    <details className="jp-smx-notice jp-smx-elsewhere">
      <summary>{trans.__('A notebook has jobs that are not listed here')}</summary>
      <p>
        {trans.__(
          'Its kernel keeps its jobs on another machine or in another data folder than this Jupyter server. Run %1 in that notebook to list them.',
          '%smx jobs'
        )}
      </p>
    </details>
  ) : null;
}
