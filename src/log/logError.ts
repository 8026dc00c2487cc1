// What went wrong when a log was asked for, and whether asking again helps.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { TroubleKind } from '../api/errors';
import { ApiError, sentenceOf, troubleOf } from '../api/errors';

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

const BY_TROUBLE: Record<TroubleKind, ProblemKind> = {
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

export function problemOf(reason: unknown): IProblem {
  if (!(reason instanceof ApiError)) {
    // It is wrong in this page, and is so again the next time.
    return { kind: 'refused', said: sentenceOf(reason) };
  }
  const { kind, status, sentence: said } = troubleOf(reason);
  const mayPass = kind === 'refused' && (status >= SERVER_ERROR || status === TOO_MANY);
  return {
    kind: mayPass ? 'outage' : BY_TROUBLE[kind],
    said,
    isAsleep: status === UNAVAILABLE
  };
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
