// The connection to the server: how a failed request changes the state, and the text that explains it.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IRequestFailure } from '../api/errors';
import { formatMoment } from '../format/numbers';
import { VERSION } from '../version';
import type { IState } from './state';

/**
 * Return the state after a failed request: keep the lists, which may be out of date.
 */
export function applyFailure(state: IState, failure: IRequestFailure): IState {
  return {
    ...state,
    connectionStatus: failure.kind === 'missing' ? 'missing' : 'failing',
    failure
  };
}

/** Return true if the server answers, so that an action on a job or a pool can reach it. */
export function isReachable({ connectionStatus }: IState): boolean {
  return connectionStatus === 'ready' || connectionStatus === 'asleep';
}

/** Return the moment that clocks show: if the server does not answer, that of its last answer. */
export function shownTime(state: IState, now: number): number {
  const { connectionStatus, lastResponseAt } = state;
  return connectionStatus === 'failing' && lastResponseAt !== null
    ? Math.min(now, lastResponseAt)
    : now;
}

/** Return true if this page shows no job; without a controller there may be earlier ones. */
export function hasNoJobs({ connectionStatus, failure, jobs, cursor }: IState): boolean {
  const isAnswered =
    connectionStatus === 'ready' || (connectionStatus === 'asleep' && failure === null);
  return isAnswered && jobs.size === 0 && cursor === null;
}

/** Return true if the state of jobs and pools is known, even if there are none. */
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
      // A controller exits when nothing is left to do; if one cannot start, it is unknown what it would find.
      return failure === null || jobs.size > 0 || pools.size > 0;
    case 'failing':
      return lastResponseAt !== null && failure?.kind !== 'forbidden';
    default:
      return false;
  }
}

/**
 * Describe what is wrong, sentence by sentence. Empty without a problem, and for a missing server half, whose page
 * explains it.
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
      'Cannot reach the Jupyter server. Jobs keep running, and this page retries automatically. If that does not help, check that the server is running.'
    ),
  missing: () => '',
  loggedOut: (_, trans) =>
    trans.__('You are logged out of this Jupyter server. Log in again, then return to this tab.'),
  forbidden: ({ message }, trans) =>
    trans.__('This Jupyter server does not allow you to see jobs and pools. %1', message),
  broken: ({ status, message }, trans) =>
    status >= 400
      ? trans.__(
          'The server returned status %1. A proxy may be unable to reach the Jupyter server. This page retries automatically.',
          status
        )
      : trans.__('%1 This page retries automatically.', message),
  gone: ({ message }) => message,
  refused: ({ message }) => message
};

/** Say how old the lists are while they are not updated. */
function asOf(state: IState, now: number, trans: TranslationBundle): string {
  const { lastResponseAt, connectionStatus, failure } = state;
  if (lastResponseAt === null || connectionStatus !== 'failing' || failure?.kind === 'forbidden') {
    return '';
  }
  return trans.__('Last updated %1.', formatMoment(lastResponseAt, now));
}

/** Describe in one sentence why a small view, such as a card, may be outdated; empty if it is not. */
export function describeStaleness(state: IState, now: number, trans: TranslationBundle): string {
  const { lastResponseAt, connectionStatus, failure } = state;
  if (failure?.kind === 'refused') {
    return failure.message;
  }
  if (connectionStatus !== 'failing' || lastResponseAt === null) {
    return '';
  }
  return failure?.kind === 'loggedOut'
    ? trans.__('last updated %1; log in again', formatMoment(lastResponseAt, now))
    : trans.__('last updated %1; server not reachable', formatMoment(lastResponseAt, now));
}

/** Say what to do about two halves that do not fit; empty if they do, or if the server half's version is unknown. */
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
      'Reload the page. If this message remains, restart the Jupyter server. If that does not help, install the same version in every environment that has jupyter_smx:'
    )
  ];
}
