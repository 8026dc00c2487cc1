// What stands above the lists when something is wrong between page and server, with what to do about it.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { describeFailure, describeVersionMismatch } from '../state/connectionState';
import type { IState } from '../state/state';
import { TextButton } from './textButton';

// Commands, the same in every language.
const INSTALL = 'pip install jupyter-smx';
const CHECK = 'jupyter server extension list';

export interface IConnectionNoticeProps {
  state: IState;
  now: number;
  trans: TranslationBundle;
  /** Where one logs in; without it nothing leads there. */
  loginUrl?: string;
  /** Absent, as the other, where its command was switched off. */
  onRefresh?: () => void;
  onWake?: () => void;
}

export function ConnectionNotice(props: IConnectionNoticeProps): JSX.Element {
  return (
    <>
      <VersionNotice {...props} />
      <ReachNotice {...props} />
    </>
  );
}

function ReachNotice(props: IConnectionNoticeProps): JSX.Element | null {
  switch (props.state.connectionStatus) {
    case 'missing':
      return <MissingNotice {...props} />;
    case 'asleep':
      return props.state.failure ? (
        <FailureNotice {...props} onTry={props.onWake} />
      ) : (
        <AsleepNotice {...props} />
      );
    case 'failing':
      return <FailureNotice {...props} onTry={props.onRefresh} />;
    default:
      return null;
  }
}

function AsleepNotice({ trans, onWake }: IConnectionNoticeProps): JSX.Element {
  return (
    <div className="jp-smx-notice jp-smx-asleep" role="status">
      <p>{trans.__('The controller is idle and has stopped.')}</p>
      <p>{trans.__('It starts with your next %1 or %2 cell.', '%%train', '%%process')}</p>
      <NoticeButton label={trans.__('Show earlier jobs')} onClick={onWake} />
    </div>
  );
}

function FailureNotice(props: IConnectionNoticeProps & { onTry?: () => void }): JSX.Element {
  const { state, now, trans, loginUrl, onTry } = props;
  return (
    <div className="jp-smx-notice jp-smx-trouble" role="alert">
      {describeFailure(state, now, trans).map(words => (
        <p key={words}>{words}</p>
      ))}
      {state.failure?.kind === 'loggedOut' && loginUrl ? (
        // Not in this tab: what is not saved in it would be lost.
        <a href={loginUrl} target="_blank" rel="noopener noreferrer" className="jp-smx-login">
          {trans.__('Log in (opens a new tab)')}
        </a>
      ) : null}
      <NoticeButton label={trans.__('Try again')} onClick={onTry} />
    </div>
  );
}

function VersionNotice({ state, trans }: IConnectionNoticeProps): JSX.Element | null {
  const sentences = describeVersionMismatch(state, trans);
  return sentences.length > 0 ? (
    <div className="jp-smx-notice jp-smx-versions" role="status">
      {sentences.map(words => (
        <p key={words}>{words}</p>
      ))}
      <pre>{`${INSTALL}==${state.serverVersion}`}</pre>
    </div>
  ) : null;
}

function NoticeButton(props: { label: string; onClick?: () => void }): JSX.Element | null {
  const { label, onClick } = props;
  return onClick ? <TextButton label={label} onClick={() => onClick()} /> : null;
}

function MissingNotice({ trans, onRefresh }: IConnectionNoticeProps): JSX.Element {
  return (
    <div className="jp-smx-notice" role="alert">
      <p>{trans.__('The jupyter_smx server extension is not enabled on this Jupyter server.')}</p>
      <p>{trans.__('Install it in the environment of the server, then restart the server:')}</p>
      <pre>{INSTALL}</pre>
      <p>{trans.__('To check whether it is enabled, run:')}</p>
      <pre>{CHECK}</pre>
      <NoticeButton label={trans.__('Check again')} onClick={onRefresh} />
    </div>
  );
}
