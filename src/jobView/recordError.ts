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

/** Return the kind and the sentence with its cure; `isKnown` says whether data of the job is shown below. */
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
            'This job was deleted with its log and files. The data below was loaded earlier.'
          )
        : trans.__('This job no longer exists: it was deleted with its log and files.'),
    asleep: () => trans.__('The controller that has this job is idle and has stopped.'),
    // The server's message says where to request the permission.
    forbidden: () => failure.message,
    loggedOut: () =>
      trans.__(
        'You are logged out. Log in again in another tab; this tab reloads the job when you return to it.'
      ),
    missing: () => '',
    failing: () => trans.__('Cannot load this job: %1', failure.message)
  };
  return { kind, message: words[kind]() };
}
