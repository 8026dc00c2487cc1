// Why a job cannot be read now, and what cures it.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ITrouble } from '../api/errors';
import type { Reach } from '../state/state';

/** As trouble is told apart everywhere; besides, nobody answers because nothing was to do, or for another reason. */
export type ProblemKind = 'gone' | 'asleep' | 'loggedOut' | 'forbidden' | 'missing' | 'failing';

export interface IProblem {
  kind: ProblemKind;
  sentence: string;
}

const UNAVAILABLE = 503;

export function kindOf({ kind, status }: ITrouble, reach: Reach): ProblemKind {
  switch (kind) {
    case 'gone':
    case 'loggedOut':
    case 'forbidden':
    case 'missing':
      return kind;
    default:
      return status === UNAVAILABLE && reach === 'asleep' ? 'asleep' : 'failing';
  }
}

/** The kind and the sentence with its cure; `isKnown` says whether something of the job is shown below. */
export function problemOf(
  trouble: ITrouble,
  reach: Reach,
  isKnown: boolean,
  trans: TranslationBundle
): IProblem {
  const kind = kindOf(trouble, reach);
  const words: Record<ProblemKind, () => string> = {
    gone: () =>
      isKnown
        ? trans.__(
            'This job was deleted with its log and its files. Below is what was read before.'
          )
        : trans.__('There is no such job any more: it was deleted with its log and its files.'),
    asleep: () =>
      trans.__('The controller, which knows this job, has left since nothing was to do.'),
    // Whoever is known and has no right is told by the server whom to ask.
    forbidden: () => trouble.sentence,
    loggedOut: () =>
      trans.__(
        'You are logged out, so the server does not let you read this job. Log in again in another tab; this one goes on when you come back to it.'
      ),
    missing: () => '',
    failing: () => trans.__('The server cannot be asked about this job: %1', trouble.sentence)
  };
  return { kind, sentence: words[kind]() };
}
