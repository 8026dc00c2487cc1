// What stands above the lists when the server half does not answer, with what to do about it.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { IState } from '../state';
import { Button } from './button';

// Commands, the same in every language.
const INSTALL = 'pip install jupyter-smx';
const CHECK = 'jupyter server extension list';

export interface INoticeProps {
  state: IState;
  trans: TranslationBundle;
  /** Absent, as the other, where its command was switched off. */
  onRefresh?: () => void;
  onWake?: () => void;
}

export function Notice({ state, trans, onRefresh, onWake }: INoticeProps): JSX.Element | null {
  switch (state.reach) {
    case 'missing':
      return <MissingNotice trans={trans} onRefresh={onRefresh} />;
    case 'asleep':
      return (
        <div className="jp-smx-notice">
          <p>{trans.__('No job has run for a while, so nothing of jupyter_smx is running.')}</p>
          <p>{trans.__('It starts with the next %1 or %2 cell.', '%%train', '%%process')}</p>
          <NoticeButton label={trans.__('Show earlier jobs')} onClick={onWake} />
        </div>
      );
    case 'failing':
      return (
        <div className="jp-smx-notice" role="alert">
          <p>{trans.__('The list may be out of date: %1', state.problem)}</p>
          <NoticeButton label={trans.__('Try again')} onClick={onRefresh} />
        </div>
      );
    default:
      return null;
  }
}

function NoticeButton(props: { label: string; onClick?: () => void }): JSX.Element | null {
  const { label, onClick } = props;
  return onClick ? <Button label={label} onClick={() => onClick()} /> : null;
}

function MissingNotice(props: { trans: TranslationBundle; onRefresh?: () => void }): JSX.Element {
  const { trans, onRefresh } = props;
  return (
    <div className="jp-smx-notice" role="alert">
      <p>{trans.__('The server half of jupyter_smx is not active on this Jupyter server.')}</p>
      <p>
        {trans.__(
          'Install it into the environment that the server runs in, then restart the server:'
        )}
      </p>
      <pre>{INSTALL}</pre>
      <p>{trans.__('This command says whether it is enabled:')}</p>
      <pre>{CHECK}</pre>
      <NoticeButton label={trans.__('Look again')} onClick={onRefresh} />
    </div>
  );
}
