// What the user has seen already, in any tab of this browser, today or when the page was open last.

import type { JobSummary } from '../_types';
import type { IStorage } from './storage';

/** Seconds for which seen jobs are stored one by one; for everything before, one moment is enough. */
const ONE_BY_ONE = 60;

interface IRecord {
  /** Everything that happened before this moment (by the server's clock) counts as seen. */
  until: number;
  /** What was announced since then: ids, and the moments of their announcement. */
  since: [string, number][];
}

/**
 * Shared by the tabs of one browser, so that no tab repeats what another one has announced.
 */
export class SeenStore {
  constructor(
    private readonly storage: IStorage,
    readonly key: string
  ) {}

  /** Store this moment as the beginning, unless there is one. */
  begin(now: number): void {
    if (this._read() === null) {
      this._write({ until: now, since: [] });
    }
  }

  /** Read the store once, and return a test whether what happened at `at` has been seen. */
  seenTest(): (id: string, at: number) => boolean {
    const { until, since } = this._read() ?? NOTHING;
    const known = new Set(since.map(([id]) => id));
    return (id, at) => at <= until || known.has(id);
  }

  /** Note these ids as seen, one by one: other things that happened at the same time may be unseen. */
  add(ids: readonly string[], now: number): void {
    const { until, since } = this._read() ?? NOTHING;
    const known = new Set(since.map(([id]) => id));
    const more = ids.filter(id => !known.has(id)).map((id): [string, number] => [id, now]);
    if (more.length > 0) {
      this._write({ until, since: [...since, ...more] });
    }
  }

  /** Note that the user of this tab has seen everything that it shows. */
  markAllSeen(now: number): void {
    const { until, since } = this._read() ?? NOTHING;
    const cut = now - ONE_BY_ONE;
    if (cut > until) {
      this._write({ until: cut, since: since.filter(([, at]) => at > cut) });
    }
  }

  /** Return the finished jobs that were announced in no tab. */
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
      // Another program wrote the entry.
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
