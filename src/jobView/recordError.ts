// Why a job cannot be read now, and what cures it.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IRequestFailure } from '../api/errors';
import type { ConnectionStatus } from '../state/state';

/** The kinds of a request failure that the view explains; `asleep`: no controller runs; `failing`: any other. */
export type RecordErrorKind = 'gone' | 'asleep' | 'loggedOut' | 'forbidden' | 'missing' | 'failing';

export interface IRecordError {
  kind: RecordErrorKind;
  message: string;
}

const UNAVAILABLE = 503;

export function recordErrorKind(
  { kind, status }: IRequestFailure,
  connectionStatus: ConnectionStatus
): RecordErrorKind {
  switch (kind) {
    case 'gone':
    case 'loggedOut':
    case 'forbidden':
    case 'missing':
      return kind;
    default:
      return status === UNAVAILABLE && connectionStatus === 'asleep' ? 'asleep' : 'failing';
  }
}

/** The kind and the sentence with its cure; `isKnown` says whether something of the job is shown below. */
export function describeRecordError(
  failure: IRequestFailure,
  connectionStatus: ConnectionStatus,
  isKnown: boolean,
  trans: TranslationBundle
): IRecordError {
  const kind = recordErrorKind(failure, connectionStatus);
  const words: Record<RecordErrorKind, () => string> = {
    gone: () =>
      isKnown
        ? trans.__(
            'This job was deleted with its log and its files. Below is what was read before.'
          )
        : trans.__('There is no such job any more: it was deleted with its log and its files.'),
    asleep: () =>
      trans.__('The controller, which knows this job, has left since nothing was to do.'),
    // Whoever is known and has no right is told by the server whom to ask.
    forbidden: () => failure.message,
    loggedOut: () =>
      trans.__(
        'You are logged out, so the server does not let you read this job. Log in again in another tab; this one goes on when you come back to it.'
      ),
    missing: () => '',
    failing: () => trans.__('The server cannot be asked about this job: %1', failure.message)
  };
  return { kind, message: words[kind]() };
}
