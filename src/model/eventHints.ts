// Decides whether an event is worth a request while the page is hidden.

import type { Event } from '@jupyterlab/services';

import type { IState } from '../state/state';

/**
 * Whether a hint says more than how far a job is: a job or a status that is not known yet, a pool, or a reset.
 *
 * A running job is news about once a second. In a hidden tab nobody sees that, and each reading would be a request.
 */
export function isStatusChange(hint: Event.Emission, state: IState): boolean {
  if (hint.kind !== 'job' || typeof hint.id !== 'string') {
    return true;
  }
  return state.jobs.get(hint.id)?.status !== hint.status;
}
