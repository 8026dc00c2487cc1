// What the panel shows to a user without jobs: a cell to run, to copy or to insert into the open notebook.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { CopyButton } from '../components/copyButton';
import { TextButton } from '../components/textButton';

/** A cell that runs anywhere, the same in every language. */
export const FIRST_CELL = `%%train
for step in range(3):
    print("step", step)`;

export function Welcome(props: {
  trans: TranslationBundle;
  /** True if the server reported that there are no jobs; else there may be earlier ones. */
  isFirst: boolean;
  /** Absent on a page without notebooks. */
  onInsert?: (source: string) => void;
}): JSX.Element {
  const { trans, isFirst, onInsert } = props;
  return (
    <section className="jp-smx-welcome" aria-label={trans.__('A cell to run')}>
      <p>
        {isFirst
          ? trans.__('No jobs yet. Run this cell in a notebook to start your first job:')
          : trans.__('Run a cell like this in a notebook to start a job:')}
      </p>
      <pre>{FIRST_CELL}</pre>
      <div className="jp-smx-buttons">
        <CopyButton text={FIRST_CELL} label={trans.__('Copy cell')} trans={trans} />
        {onInsert ? (
          <TextButton
            label={trans.__('Insert into notebook')}
            describedAs={trans.__('Insert the cell below the selected cell of the open notebook')}
            onClick={() => onInsert(FIRST_CELL)}
          />
        ) : null}
      </div>
    </section>
  );
}
