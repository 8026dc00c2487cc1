// What a saved notebook holds of a job: the content of the card's MIME bundle.

import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';

import type { JobSummary } from './_types';

export const CARD_MIME_TYPE = 'application/vnd.jupyter-smx.card+json';

/** What the kernel put into the cell's output. */
export interface ICard {
  id: string;
  name: string;
  summary: JobSummary | null;
}

/**
 * Read a card from a notebook, where anything may stand; null when it is none.
 */
export function readCard(data: ReadonlyPartialJSONValue | undefined): ICard | null {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    return null;
  }
  const { id, name, summary } = data as Record<string, unknown>;
  if (typeof id !== 'string' || typeof name !== 'string') {
    return null;
  }
  return { id, name, summary: isSummary(summary) ? summary : null };
}

const TEXTS: (keyof JobSummary)[] = [
  'id',
  'name',
  'status',
  'secondary_status',
  'instances',
  'start'
];

function isSummary(value: unknown): value is JobSummary {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const fields = value as Record<string, unknown>;
  return (
    typeof fields.created_at === 'number' && TEXTS.every(name => typeof fields[name] === 'string')
  );
}
