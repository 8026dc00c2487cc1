// What a card says of a job that its kernel keeps where this server has no records, as behind a kernel gateway.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

/** Say that the job is not on this server, and which lines do what its buttons would. */
export function OtherRecordsRemark(props: { name: string; trans: TranslationBundle }): JSX.Element {
  const { name, trans } = props;
  return (
    <p className="jp-smx-says">
      {trans.__(
        'This job is not on this Jupyter server: its kernel keeps its jobs on another machine or in another data folder. In a cell of this notebook, %1 stops it and %2 shows its log.',
        `%smx stop ${name}`,
        `%smx logs ${name}`
      )}
    </p>
  );
}
