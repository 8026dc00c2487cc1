// The connection to the server: how a failed request changes the state, and the text that explains it.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IRequestFailure } from '../api/errors';
import { VERSION } from '../version';
import type { IState } from './state';

/** Seconds after which a time of day alone says too little. */
const HALF_A_DAY = 43_200;

/**
 * The state after a request without a good answer: what was known stays, and may be out of date.
 */
export function applyFailure(state: IState, failure: IRequestFailure): IState {
  return {
    ...state,
    connectionStatus: failure.kind === 'missing' ? 'missing' : 'failing',
    failure
  };
}

/** Whether anything can be said of jobs and pools, be it that there are none. */
export function isStateKnown({
  lastResponseAt,
  jobs,
  pools,
  connectionStatus,
  failure
}: IState): boolean {
  switch (connectionStatus) {
    case 'ready':
      return true;
    case 'asleep':
      // A controller leaves when nothing is left to do; of one that cannot start nobody knows what it would find.
      return failure === null || jobs.size > 0 || pools.size > 0;
    case 'failing':
      return lastResponseAt !== null && failure?.kind !== 'forbidden';
    default:
      return false;
  }
}

/**
 * What is wrong, sentence by sentence; empty while nothing is, and of a missing server half, which has a page of words.
 */
export function describeFailure(state: IState, now: number, trans: TranslationBundle): string[] {
  const { failure } = state;
  return failure
    ? [WORDS[failure.kind](failure, trans), asOf(state, now, trans)].filter(Boolean)
    : [];
}

type Worded = (failure: IRequestFailure, trans: TranslationBundle) => string;

const WORDS: Record<IRequestFailure['kind'], Worded> = {
  lost: (_, trans) =>
    trans.__(
      'There is no connection to the Jupyter server. Jobs go on without it, and this page tries again by itself; if that does not help, look whether the server runs.'
    ),
  missing: () => '',
  loggedOut: (_, trans) =>
    trans.__(
      'You are not logged in to this Jupyter server any more. Log in again, then come back.'
    ),
  forbidden: ({ message }, trans) =>
    trans.__('This Jupyter server does not show you jobs and pools. %1', message),
  broken: ({ status, message }, trans) =>
    status >= 400
      ? trans.__(
          'The server answered %1, as a proxy does while the server behind it cannot be reached. This page tries again by itself.',
          status
        )
      : trans.__('%1 This page tries again by itself.', message),
  gone: ({ message }) => message,
  refused: ({ message }) => message
};

/** What the lists are worth, while they are not followed. */
function asOf(state: IState, now: number, trans: TranslationBundle): string {
  const { lastResponseAt, connectionStatus, failure } = state;
  if (lastResponseAt === null || connectionStatus !== 'failing' || failure?.kind === 'forbidden') {
    return '';
  }
  return trans.__('Everything here is as it was at %1.', moment(lastResponseAt, now));
}

/** One sentence for what has little room, as a card of a job: why it may be old; empty while it is not. */
export function describeStaleness(state: IState, now: number, trans: TranslationBundle): string {
  const { lastResponseAt, connectionStatus, failure } = state;
  if (failure?.kind === 'refused') {
    return failure.message;
  }
  if (connectionStatus !== 'failing' || lastResponseAt === null) {
    return '';
  }
  return failure?.kind === 'loggedOut'
    ? trans.__('as it was at %1; log in again', moment(lastResponseAt, now))
    : trans.__('as it was at %1; no answer from the server', moment(lastResponseAt, now));
}

/** What to do about two halves that do not fit; empty where they do, or where one said nothing. */
export function describeVersionMismatch(
  { serverVersion }: IState,
  trans: TranslationBundle
): string[] {
  if (serverVersion === '' || serverVersion === VERSION) {
    return [];
  }
  return [
    trans.__(
      'This page has version %1 of jupyter_smx, and the Jupyter server runs version %2.',
      VERSION,
      serverVersion
    ),
    trans.__(
      'Reload the page. If this stays, restart the Jupyter server. If it still stays, install the same version in every environment that has jupyter_smx:'
    )
  ];
}

function moment(at: number, now: number): string {
  const date = new Date(at * 1000);
  return now - at < HALF_A_DAY ? date.toLocaleTimeString() : date.toLocaleString();
}
