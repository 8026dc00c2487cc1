// What went wrong when a log was asked for, and whether asking again helps.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { FailureKind } from '../api/errors';
import { ApiError, classifyFailure, errorText } from '../api/errors';

/**
 * `outage`: it may pass, so one asks again; `signedOut`: a person has to do something; `gone`: the job was deleted;
 * `missing`: the server half is; `refused`: the question was wrong.
 */
export type LogErrorKind = 'outage' | 'signedOut' | 'gone' | 'missing' | 'refused';

export interface ILogError {
  kind: LogErrorKind;
  /** What the server said. */
  message: string;
  /** Nothing answers because nothing was to do: it can be started. */
  isAsleep?: boolean;
}

const BY_FAILURE: Record<FailureKind, LogErrorKind> = {
  lost: 'outage',
  broken: 'outage',
  loggedOut: 'signedOut',
  forbidden: 'refused',
  missing: 'missing',
  gone: 'gone',
  refused: 'refused'
};

const TOO_MANY = 429;
const SERVER_ERROR = 500;
const UNAVAILABLE = 503;

export function toLogError(reason: unknown): ILogError {
  if (!(reason instanceof ApiError)) {
    // It is wrong in this page, and is so again the next time.
    return { kind: 'refused', message: errorText(reason) };
  }
  const { kind, status, message } = classifyFailure(reason);
  const mayPass = kind === 'refused' && (status >= SERVER_ERROR || status === TOO_MANY);
  return {
    kind: mayPass ? 'outage' : BY_FAILURE[kind],
    message,
    isAsleep: status === UNAVAILABLE
  };
}

export function formatLogError({ kind, message }: ILogError, trans: TranslationBundle): string {
  switch (kind) {
    case 'outage':
      return trans.__('Cannot load the log: %1 Retrying automatically.', endSentence(message));
    case 'signedOut':
      return trans.__('You are logged out. Log in again in another tab, then select "Try again".');
    case 'gone':
      return trans.__(
        'This job and its log were deleted. The lines loaded so far stay until you close this tab.'
      );
    case 'missing':
      return trans.__(
        'The jupyter_smx server extension is not enabled on this Jupyter server. The "Jobs and pools" panel shows how to install it.'
      );
    default:
      return trans.__('Cannot load the log: %1', endSentence(message));
  }
}

function endSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
