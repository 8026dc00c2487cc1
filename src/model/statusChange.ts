// Decides whether an event is worth a request while the page is hidden.

import type { Event } from '@jupyterlab/services';

import type { IState } from '../state/state';

/**
 * Return true if an event is about more than progress: a new job, a new status, a pool, or a reset.
 *
 * A running job changes about once a second. A hidden tab does not show that, and each change would cost a request.
 */
export function isStatusChange(event: Event.Emission, state: IState): boolean {
  if (event.kind !== 'job' || typeof event.id !== 'string') {
    return true;
  }
  return state.jobs.get(event.id)?.status !== event.status;
}
