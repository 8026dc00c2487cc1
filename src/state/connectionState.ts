// Trouble between this page and the server: what it does to the state, and the words for what is wrong and what helps.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ITrouble } from '../api/errors';
import { VERSION } from '../version';
import type { IState } from './state';

/** Seconds after which a time of day alone says too little. */
const HALF_A_DAY = 43_200;

/**
 * The state after a request without a good answer: what was known stays, and may be out of date.
 */
export function troubled(state: IState, trouble: ITrouble): IState {
  return { ...state, reach: trouble.kind === 'missing' ? 'missing' : 'failing', trouble };
}

/** Whether anything can be said of jobs and pools, be it that there are none. */
export function isKnown({ heardAt, jobs, pools, reach, trouble }: IState): boolean {
  switch (reach) {
    case 'ready':
      return true;
    case 'asleep':
      // A controller leaves when nothing is left to do; of one that cannot start nobody knows what it would find.
      return trouble === null || jobs.size > 0 || pools.size > 0;
    case 'failing':
      return heardAt !== null && trouble?.kind !== 'forbidden';
    default:
      return false;
  }
}

/**
 * What is wrong, sentence by sentence; empty while nothing is, and of a missing server half, which has a page of words.
 */
export function troubleWords(state: IState, now: number, trans: TranslationBundle): string[] {
  const { trouble } = state;
  return trouble
    ? [WORDS[trouble.kind](trouble, trans), asOf(state, now, trans)].filter(Boolean)
    : [];
}

type Worded = (trouble: ITrouble, trans: TranslationBundle) => string;

const WORDS: Record<ITrouble['kind'], Worded> = {
  lost: (_, trans) =>
    trans.__(
      'There is no connection to the Jupyter server. Jobs go on without it, and this page tries again by itself; if that does not help, look whether the server runs.'
    ),
  missing: () => '',
  loggedOut: (_, trans) =>
    trans.__(
      'You are not logged in to this Jupyter server any more. Log in again, then come back.'
    ),
  forbidden: ({ sentence }, trans) =>
    trans.__('This Jupyter server does not show you jobs and pools. %1', sentence),
  broken: ({ status, sentence }, trans) =>
    status >= 400
      ? trans.__(
          'The server answered %1, as a proxy does while the server behind it cannot be reached. This page tries again by itself.',
          status
        )
      : trans.__('%1 This page tries again by itself.', sentence),
  gone: ({ sentence }) => sentence,
  refused: ({ sentence }) => sentence
};

/** What the lists are worth, while they are not followed. */
function asOf(state: IState, now: number, trans: TranslationBundle): string {
  const { heardAt, reach, trouble } = state;
  if (heardAt === null || reach !== 'failing' || trouble?.kind === 'forbidden') {
    return '';
  }
  return trans.__('Everything here is as it was at %1.', moment(heardAt, now));
}

/** One sentence for what has little room, as a card of a job: why it may be old; empty while it is not. */
export function staleWords(state: IState, now: number, trans: TranslationBundle): string {
  const { heardAt, reach, trouble } = state;
  if (trouble?.kind === 'refused') {
    return trouble.sentence;
  }
  if (reach !== 'failing' || heardAt === null) {
    return '';
  }
  return trouble?.kind === 'loggedOut'
    ? trans.__('as it was at %1; log in again', moment(heardAt, now))
    : trans.__('as it was at %1; no answer from the server', moment(heardAt, now));
}

/** What to do about two halves that do not fit; empty where they do, or where one said nothing. */
export function versionWords({ serverVersion }: IState, trans: TranslationBundle): string[] {
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
