// What went wrong when a log was asked for, and whether asking again helps.

import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError } from '../errors';

/**
 * `outage`: it may pass, so one asks again; `signedOut`: a person has to do something; `gone`: the job was deleted;
 * `missing`: the server half is; `refused`: the question was wrong.
 */
export type ProblemKind = 'outage' | 'signedOut' | 'gone' | 'missing' | 'refused';

export interface IProblem {
  kind: ProblemKind;
  /** What the server said. */
  said: string;
  /** Nothing answers because nothing was to do: it can be started. */
  isAsleep?: boolean;
}

const UNAUTHORIZED = 401;
const FORBIDDEN = 403;
const NOT_FOUND = 404;
const TOO_MANY = 429;
const UNAVAILABLE = 503;
const SERVER_ERROR = 500;

export function problemOf(reason: unknown): IProblem {
  const said = reason instanceof Error ? reason.message : String(reason);
  if (!(reason instanceof ApiError)) {
    return { kind: 'refused', said };
  }
  const { status, code } = reason;
  if (status === 0 || status >= SERVER_ERROR || status === TOO_MANY) {
    return { kind: 'outage', said, isAsleep: status === UNAVAILABLE };
  }
  if (status === UNAUTHORIZED || status === FORBIDDEN) {
    return { kind: 'signedOut', said };
  }
  if (status === NOT_FOUND) {
    return { kind: code === '' ? 'missing' : 'gone', said };
  }
  return { kind: 'refused', said };
}

export function problemSentence({ kind, said }: IProblem, trans: TranslationBundle): string {
  switch (kind) {
    case 'outage':
      return trans.__(
        'The log cannot be read now: %1 It is tried again by itself.',
        sentence(said)
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
      return trans.__('The log cannot be read: %1', sentence(said));
  }
}

function sentence(said: string): string {
  return /[.!?]$/.test(said) ? said : `${said}.`;
}
