// Decides whether an event is worth a request while the page is hidden.

import type { Event } from '@jupyterlab/services';

import type { IState } from '../state/state';

/**
 * Return true if a hint is about more than progress: a new job, a new status, a pool, or a reset.
 *
 * A running job changes about once a second. A hidden tab does not show that, and each change would cost a request.
 */
export function isStatusChange(hint: Event.Emission, state: IState): boolean {
  if (hint.kind !== 'job' || typeof hint.id !== 'string') {
    return true;
  }
  return state.jobs.get(hint.id)?.status !== hint.status;
}
