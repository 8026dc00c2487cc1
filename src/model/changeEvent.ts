// Decides what a page reads after an event.

import type { Event } from '@jupyterlab/services';

import { shouldPollOnEvent } from '../api/poller';
import type { IState } from '../state/state';

export const CHANGE_SCHEMA = 'https://events.jupyter.org/jupyter_smx/change/v1';

/** What to read: nothing, what changed after the number of the state, or the whole list. */
export type Read = 'nothing' | 'changes' | 'list';

/** A hidden page reads only what notifications tell: a running job changes about once a second. */
export function readAfterEvent(event: Event.Emission, state: IState, isHidden: boolean): Read {
  const isReason =
    event.schema_id === CHANGE_SCHEMA && shouldPollOnEvent(state.failure, event.kind, isHidden);
  if (!isReason || (isHidden && !isStatusChange(event, state))) {
    return 'nothing';
  }
  if (event.kind === 'reset') {
    return 'list';
  }
  const isNews = typeof event.seq === 'number' && event.seq > state.seq;
  return isNews || state.connectionStatus !== 'ready' ? 'changes' : 'nothing';
}

/** Return true if an event is about more than progress. */
function isStatusChange(event: Event.Emission, state: IState): boolean {
  if (event.kind !== 'job' || typeof event.id !== 'string') {
    return true;
  }
  return state.jobs.get(event.id)?.status !== event.status;
}
