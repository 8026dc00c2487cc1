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
      return trans.__(
        'The log cannot be read now: %1 It is tried again by itself.',
        endSentence(message)
      );
    case 'signedOut':
      return trans.__(
        'The server does not know you any more: sign in again in another tab, then press "Try again" here.'
      );
    case 'gone':
      return trans.__(
        'This job was deleted, and its log with it. What was read of it stays until you close it.'
      );
    case 'missing':
      return trans.__(
        'The server half of jupyter_smx is not active on this Jupyter server: the panel says how to install it.'
      );
    default:
      return trans.__('The log cannot be read: %1', endSentence(message));
  }
}

function endSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
