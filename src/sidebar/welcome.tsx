// What the panel shows to a user who has no jobs yet: a cell to run, to copy or to insert into the open notebook.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import { CopyButton } from '../components/copyButton';
import { TextButton } from '../components/textButton';

/** A cell that runs anywhere, the same in every language. */
export const FIRST_CELL = `%%train
for step in range(3):
    print("step", step)`;

/** Lab's own commands: they act on the notebook in front. */
const [INSERT, WRITE] = ['notebook:insert-cell-below', 'notebook:replace-selection'];

export function Welcome(props: {
  commands: CommandRegistry;
  trans: TranslationBundle;
}): JSX.Element {
  const { commands, trans } = props;
  const canInsert = commands.hasCommand(INSERT) && commands.hasCommand(WRITE);
  return (
    <section className="jp-smx-welcome" aria-label={trans.__('Your first job')}>
      <p>{trans.__('No jobs yet. Run this cell in a notebook to start your first job:')}</p>
      <pre>{FIRST_CELL}</pre>
      <div className="jp-smx-buttons">
        <CopyButton text={FIRST_CELL} label={trans.__('Copy cell')} trans={trans} />
        {canInsert ? (
          <TextButton
            label={trans.__('Insert into notebook')}
            describedAs={trans.__('Insert the cell below the selected cell of the open notebook')}
            onClick={() => void insert(commands)}
          />
        ) : null}
      </div>
    </section>
  );
}

/** Add the cell to the notebook in front; without one, nothing happens. */
async function insert(commands: CommandRegistry): Promise<void> {
  if (commands.isEnabled(INSERT)) {
    await commands.execute(INSERT);
    await commands.execute(WRITE, { text: FIRST_CELL });
  }
}
