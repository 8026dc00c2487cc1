// The known series of one run of a job: grows with each answer, and computes what to request next.

import type { GpuUsage, HostUsage, JobMetrics, JobUsage } from '../_types';

/** What a line measures; `metric` is a value that the job itself printed. */
export type SeriesKind =
  | 'metric'
  | 'cpu'
  | 'memory'
  | 'read'
  | 'write'
  | 'receive'
  | 'send'
  | 'disk'
  | 'gpu'
  | 'gpu-memory';

type Value = number | null;

/** One figure of one host, oldest first, in two columns of equal length; null where it is not known. */
export interface ITimeSeries {
  readonly key: string;
  readonly kind: SeriesKind;
  readonly host: string;
  /** The name of a metric, or of a GPU; empty for what a host has once. */
  readonly name: string;
  /** The upper limit: cores in percent, bytes of memory; null if it is unknown. */
  readonly most: number | null;
  /** Seconds since the epoch, by the clock of the server. */
  readonly at: number[];
  readonly values: Value[];
}

/**
 * Seconds by which the clocks of two hosts may differ without a missed sample. A host that is silent for longer has
 * ended its part; without this limit, each request would repeat all samples since its last one.
 */
const SKEW = 60;

/** Points of one metric from which on all are read again: the server keeps a thousand, spread over the whole run. */
const MANY = 10_000;

const COLUMNS = [
  ['cpu', 'cpu_percent'],
  ['memory', 'memory_bytes'],
  ['read', 'read_rate'],
  ['write', 'write_rate'],
  ['receive', 'receive_rate'],
  ['send', 'send_rate'],
  ['disk', 'disk_bytes']
] as const;

export class History {
  /** Which run of the job this is; null before the first answer. */
  attempt: number | null = null;
  attempts = 1;

  get lines(): readonly ITimeSeries[] {
    return [...this._lines.values()];
  }

  /** Return sentences about what could not be measured or read. */
  get notes(): readonly string[] {
    return [...this._notes];
  }

  /** Return the first and the last moment with data; null without data. */
  get span(): { begin: number; end: number } | null {
    let [begin, end] = [Infinity, -Infinity];
    for (const { at } of this._lines.values()) {
      if (at.length > 0) {
        begin = Math.min(begin, at[0]);
        end = Math.max(end, at[at.length - 1]);
      }
    }
    return begin <= end ? { begin, end } : null;
  }

  /** Return the moment after which usage is missing. */
  get usageSince(): number {
    const newest = [...this._clocks.values()].map(last).filter(at => at > 0);
    return newest.length > 0 ? Math.max(Math.min(...newest), Math.max(...newest) - SKEW) : 0;
  }

  /** Return the moment after which points of metrics are missing. */
  get metricsSince(): number {
    const metrics = this.lines.filter(line => line.kind === 'metric');
    if (metrics.some(line => line.at.length > MANY)) {
      return 0;
    }
    return metrics.reduce((newest, line) => Math.max(newest, last(line.at)), 0);
  }

  clear(): void {
    this._lines.clear();
    this._clocks.clear();
    this._notes.clear();
    this.attempt = null;
  }

  /** Add usage that came after `since`; 0 replaces all usage. Return true if something is new. */
  addUsage(usage: JobUsage, since: number): boolean {
    if (since === 0) {
      this._forget(line => line.kind !== 'metric');
      this._clocks.clear();
    }
    this._isRun(usage);
    return usage.hosts.map(host => this._addHost(host)).some(Boolean);
  }

  /** Add points that came after `since`; 0 replaces all metrics. Return true if something is new. */
  addMetrics(metrics: JobMetrics, since: number): boolean {
    if (since === 0) {
      this._forget(line => line.kind === 'metric');
    }
    this._isRun(metrics);
    metrics.notes.forEach(note => this._notes.add(note));
    let isNew = false;
    for (const series of metrics.series) {
      const line = this._line('metric', series.host, series.name, null, []);
      for (let i = upperBound(series.at, last(line.at)); i < series.at.length; i++) {
        line.at.push(series.at[i]);
        line.values.push(known(series.values[i]));
        isNew = true;
      }
    }
    return isNew;
  }

  private _isRun({ attempt, attempts }: { attempt: number; attempts: number }): void {
    this.attempt = attempt;
    this.attempts = Math.max(1, attempts);
  }

  private _forget(which: (line: ITimeSeries) => boolean): void {
    for (const line of this.lines.filter(which)) {
      this._lines.delete(line.key);
    }
  }

  private _addHost(host: HostUsage): boolean {
    const at = this._clocks.get(host.host) ?? [];
    this._clocks.set(host.host, at);
    const [before, from] = [at.length, upperBound(host.at, last(at))];
    for (let i = from; i < host.at.length; i++) {
      at.push(host.at[i]);
    }
    const most: Partial<Record<SeriesKind, Value>> = {
      cpu: host.cpus && host.cpus * 100,
      memory: host.memory_total_bytes,
      disk: host.disk_total_bytes
    };
    for (const [kind, column] of COLUMNS) {
      const line = this._line(kind, host.host, '', most[kind] ?? null, at);
      append(line, host[column], from, before);
    }
    host.gpus.forEach((gpu, turn) => this._addGpu(host, gpu, turn, from, before));
    host.notes.forEach(note => this._notes.add(note));
    return at.length > before;
  }

  private _addGpu(
    host: HostUsage,
    gpu: GpuUsage,
    turn: number,
    from: number,
    before: number
  ): void {
    const at = this._clocks.get(host.host) ?? [];
    const name = String(turn);
    append(this._line('gpu', host.host, name, 100, at), gpu.percent, from, before);
    const memory = this._line('gpu-memory', host.host, name, gpu.memory_total_bytes, at);
    append(memory, gpu.memory_bytes, from, before);
  }

  private _line(
    kind: SeriesKind,
    host: string,
    name: string,
    most: Value,
    at: number[]
  ): ITimeSeries {
    const key = JSON.stringify([kind, name, host]);
    let line = this._lines.get(key);
    if (line === undefined) {
      line = { key, kind, host, name, most, at, values: [] };
      this._lines.set(key, line);
    }
    return line;
  }

  private readonly _lines = new Map<string, ITimeSeries>();
  /** The moments of each host, shared by all its lines. */
  private readonly _clocks = new Map<string, number[]>();
  private readonly _notes = new Set<string>();
}

/** Append values to a line; moments before its first measurement get null. */
function append(line: ITimeSeries, column: readonly Value[], from: number, before: number): void {
  while (line.values.length < before) {
    line.values.push(null);
  }
  while (line.values.length < line.at.length) {
    line.values.push(known(column[from + line.values.length - before]));
  }
}

/** Return null for what is not a finite number: charts have no place for it. */
function known(value: Value | undefined): Value {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function last(at: readonly number[]): number {
  return at.length > 0 ? at[at.length - 1] : 0;
}

/** Return the index of the first moment after `moment`, in a column that never falls. */
export function upperBound(at: readonly number[], moment: number): number {
  return first(at, one => one > moment);
}

/** Return the index of the first moment at or after `moment`, in a column that never falls. */
export function lowerBound(at: readonly number[], moment: number): number {
  return first(at, one => one >= moment);
}

function first(at: readonly number[], isWanted: (moment: number) => boolean): number {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isWanted(at[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}
