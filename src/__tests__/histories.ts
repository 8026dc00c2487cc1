// What the server says that a job used and measured, with only what a test is about.

import type { HostUsage, JobMetrics, JobUsage, MetricSeries } from '../_types';

export function host(name: string, at: number[], fields: Partial<HostUsage> = {}): HostUsage {
  const unknown = at.map(() => null);
  return {
    host: name,
    at,
    cpu_percent: unknown,
    memory_bytes: unknown,
    read_rate: unknown,
    write_rate: unknown,
    receive_rate: unknown,
    send_rate: unknown,
    disk_bytes: unknown,
    gpus: [],
    cpus: null,
    memory_total_bytes: null,
    disk_total_bytes: null,
    notes: [],
    ...fields
  };
}

export function usage(hosts: HostUsage[], fields: Partial<JobUsage> = {}): JobUsage {
  return { job: 'digits', hosts, peak: null, attempt: 1, attempts: 1, is_final: false, ...fields };
}

export function series(
  name: string,
  at: number[],
  values: (number | null)[],
  where = 'algo-1'
): MetricSeries {
  const steps = at.map((_, i) => i);
  return { name, host: where, steps, at, values, count: at.length, stride: 1 };
}

export function metrics(all: MetricSeries[], fields: Partial<JobMetrics> = {}): JobMetrics {
  const told = { job: 'digits', progress: null, notes: [], attempt: 1, attempts: 1 };
  return { ...told, series: all, is_final: false, ...fields };
}
