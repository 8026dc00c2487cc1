// Why a job cannot be read now, and what cures it.

import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError, sentenceOf } from '../errors';
import type { Reach } from '../state';

/** The job is gone, nobody is asked, who asks may not, the server half is missing, or something else is wrong. */
export type TroubleKind = 'deleted' | 'asleep' | 'forbidden' | 'missing' | 'failing';

const NO_RIGHT = 'AccessDeniedException';

export interface ITrouble {
  kind: TroubleKind;
  sentence: string;
}

export function kindOf(reason: unknown, reach: Reach): TroubleKind {
  if (!(reason instanceof ApiError)) {
    return 'failing';
  }
  switch (reason.status) {
    case 401:
    case 403:
      return 'forbidden';
    case 404:
      // The server's own answer to an address that it does not know has no code of ours.
      return reason.code === 'ResourceNotFound' ? 'deleted' : 'missing';
    case 503:
      return reach === 'asleep' ? 'asleep' : 'failing';
    default:
      return 'failing';
  }
}

/** The kind and the sentence with its cure; `isKnown` says whether something of the job is shown below. */
export function troubleOf(
  reason: unknown,
  reach: Reach,
  isKnown: boolean,
  trans: TranslationBundle
): ITrouble {
  const kind = kindOf(reason, reach);
  const words: Record<TroubleKind, () => string> = {
    deleted: () =>
      isKnown
        ? trans.__(
            'This job was deleted with its log and its files. Below is what was read before.'
          )
        : trans.__('There is no such job any more: it was deleted with its log and its files.'),
    asleep: () =>
      trans.__('The controller, which knows this job, has left since nothing was to do.'),
    forbidden: () =>
      // Whoever is known and has no right is told by the server whom to ask.
      (reason instanceof ApiError && reason.code === NO_RIGHT && reason.message) ||
      trans.__(
        'You are logged out, so the server does not let you read this job. Log in again in another tab; this one goes on when you come back to it.'
      ),
    missing: () => '',
    failing: () => trans.__('The server cannot be asked about this job: %1', sentenceOf(reason))
  };
  return { kind, sentence: words[kind]() };
}
