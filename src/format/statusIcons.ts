// The state of a job as one sign, the same in every view; words beside it say the same.

import type { JobSummary } from '../_types';

export const STATUS_ICONS: Record<JobSummary['status'], string> = {
  InProgress: '●',
  Stopping: '◌',
  Completed: '✓',
  Failed: '✗',
  Stopped: '■'
};

/** The sign of a job that waits: no host works for it yet. */
export const WAITING_ICON = '◦';
