// What a person was told already, in any tab of this browser, today or when the page was open last.

import type { JobSummary } from '../_types';
import type { IStorage } from './storage';

/** Seconds for which the jobs that were told are remembered one by one; of everything before, the moment is enough. */
const ONE_BY_ONE = 60;

interface IRecord {
  /** Everything that was known before this moment (the server's clock) has been told. */
  until: number;
  /** What was told since then: ids, and the moments at which they were told. */
  since: [string, number][];
}

/**
 * Shared by the tabs of one browser, so that one tab does not say again what was read in another one.
 */
export class SeenStore {
  constructor(
    private readonly storage: IStorage,
    readonly key: string
  ) {}

  /** Take this moment as the beginning, unless there was one before. */
  begin(now: number): void {
    if (this._read() === null) {
      this._write({ until: now, since: [] });
    }
  }

  /** Read once for many: whether something that became known at `at` has been told. */
  seenTest(): (id: string, at: number) => boolean {
    const { until, since } = this._read() ?? NOTHING;
    const known = new Set(since.map(([id]) => id));
    return (id, at) => at <= until || known.has(id);
  }

  /** Note that these have been told, one by one: other things that happened meanwhile may be untold. */
  add(ids: readonly string[], now: number): void {
    const { until, since } = this._read() ?? NOTHING;
    const known = new Set(since.map(([id]) => id));
    const more = ids.filter(id => !known.has(id)).map((id): [string, number] => [id, now]);
    if (more.length > 0) {
      this._write({ until, since: [...since, ...more] });
    }
  }

  /** Note that whoever looks at this tab knows everything that it knows. */
  markAllSeen(now: number): void {
    const { until, since } = this._read() ?? NOTHING;
    const cut = now - ONE_BY_ONE;
    if (cut > until) {
      this._write({ until: cut, since: since.filter(([, at]) => at > cut) });
    }
  }

  /** Those among finished jobs of which nobody heard. */
  unseen(jobs: Iterable<JobSummary>): JobSummary[] {
    const { until, since } = this._read() ?? NOTHING;
    const known = new Set(since.map(([id]) => id));
    return [...jobs].filter(job => (job.ended_at ?? 0) > until && !known.has(job.id));
  }

  private _read(): IRecord | null {
    try {
      const found: unknown = JSON.parse(this.storage.getItem(this.key) ?? 'null');
      return isRecord(found) ? found : null;
    } catch {
      // Written by somebody else.
      return null;
    }
  }

  private _write(record: IRecord): void {
    this.storage.setItem(this.key, JSON.stringify(record));
  }
}

const NOTHING: IRecord = { until: Number.NEGATIVE_INFINITY, since: [] };

function isRecord(value: unknown): value is IRecord {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const { until, since } = value as Record<string, unknown>;
  return typeof until === 'number' && Array.isArray(since) && since.every(isEntry);
}

function isEntry(value: unknown): boolean {
  return Array.isArray(value) && typeof value[0] === 'string' && typeof value[1] === 'number';
}
