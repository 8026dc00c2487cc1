// What a saved notebook holds of a job: the content of the card's MIME bundle.

import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';

import type { JobSummary } from '../_types';
import { NAME_LIMIT, plainText } from '../format/plainText';
import { parseUsage } from '../format/usageText';
import type { IArraySnapshot } from '../state/arrays';
import { plainJob } from '../state/plainRecords';

/** A submission that waits for the start of the controller, or one without a job. */
export type Submission = 'starting' | 'failed';

/** What the kernel put into the cell's output. */
export interface ICardSnapshot {
  id: string;
  name: string;
  summary: JobSummary | null;
  /** How far the submission is, on a card that the kernel makes before there is a job; null on others. */
  submission: Submission | null;
  /** There where the card is of many jobs. */
  array: IArraySnapshot | null;
  /** The ID of the records that have the job; empty on older cards. */
  recordsId: string;
  /** When the kernel made it, in seconds since the epoch by the kernel's clock; null on a card that does not say so. */
  at: number | null;
}

/**
 * Read a card from a notebook, where anything may stand; null when it is none.
 */
export function parseCard(data: ReadonlyPartialJSONValue | undefined): ICardSnapshot | null {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    return null;
  }
  const { id, name, summary, submission, array, states, records_id, at } = data as Record<
    string,
    unknown
  >;
  if (typeof id !== 'string' || typeof name !== 'string') {
    return null;
  }
  return {
    id,
    name: plainText(name, NAME_LIMIT),
    summary: isSummary(summary) ? plainJob({ ...summary, ...outlookOf(summary) }) : null,
    submission: submissionOf(submission),
    array: arrayOf(id, array, states),
    recordsId: typeof records_id === 'string' ? records_id : '',
    at: typeof at === 'number' ? at : null
  };
}

function submissionOf(submission: unknown): Submission | null {
  return submission === 'starting' || submission === 'failed' ? submission : null;
}

function arrayOf(id: string, array: unknown, states: unknown): IArraySnapshot | null {
  if (typeof array !== 'object' || array === null || typeof states !== 'string') {
    return null;
  }
  const { title } = array as Record<string, unknown>;
  return { id, title: typeof title === 'string' ? plainText(title, NAME_LIMIT) : '', states };
}

type Outlook = Pick<
  JobSummary,
  'progress' | 'metrics' | 'expectation' | 'expected_start_at' | 'usage' | 'peak'
>;

/** What is shown of a job's progress, where the notebook holds what it should; older cards hold nothing of it. */
function outlookOf(summary: JobSummary): Outlook {
  const { progress, metrics, expectation, peak } = summary as Partial<JobSummary>;
  return {
    progress: typeof progress?.text === 'string' ? { ...progress, ...fractionOf(progress) } : null,
    metrics: numbersOf(metrics),
    expectation: typeof expectation?.seconds === 'number' ? expectation : null,
    // When the notebook is read, that moment is over, and what was used in it.
    expected_start_at: null,
    usage: null,
    peak: parseUsage(peak)
  };
}

function fractionOf({ fraction }: { fraction: unknown }): { fraction: number | null } {
  return { fraction: typeof fraction === 'number' ? fraction : null };
}

function numbersOf(metrics: unknown): JobSummary['metrics'] {
  const found: JobSummary['metrics'] = {};
  if (typeof metrics === 'object' && metrics !== null) {
    for (const [name, value] of Object.entries(metrics as Record<string, unknown>)) {
      if (typeof value === 'number' || value === null) {
        found[name] = value;
      }
    }
  }
  return found;
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
