// Says that kernels of this page have jobs that the panel cannot list.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { IState } from '../state/state';
import { hasForeignJobs } from '../state/state';

interface IForeignJobsNoticeProps {
  state: IState;
  trans: TranslationBundle;
}

export function ForeignJobsNotice({ state, trans }: IForeignJobsNoticeProps): JSX.Element | null {
  return hasForeignJobs(state) ? (
    <details className="jp-smx-notice jp-smx-foreign">
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
