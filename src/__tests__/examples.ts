// Jobs, pools and events for tests.

import type { ArraySummary, Changes, Event, JobSummary, PoolSummary } from '../_types';

export function job(number: number, fields: Partial<JobSummary> = {}): JobSummary {
  return {
    id: `job-${number}`,
    name: `train-digits-${number}`,
    base_name: 'train-digits',
    kind: 'train',
    engine: 'local',
    instances: 'local × 1',
    status: 'InProgress',
    secondary_status: 'Training',
    message: '',
    created_at: 1000 + number,
    started_at: null,
    ended_at: null,
    pool: '',
    start: '',
    queue_position: null,
    warm_pool_status: '',
    first_line_seconds: null,
    cost: null,
    failure_type: '',
    failure_line: null,
    array: null,
    attempt: 1,
    attempts: 1,
    progress: null,
    metrics: {},
    expectation: null,
    expected_start_at: null,
    usage: null,
    peak: null,
    spot: false,
    image: null,
    ...fields
  };
}

const heading = 'sweep lr';

export function arrayTask(index: number, size: number): NonNullable<JobSummary['array']> {
  return {
    id: 'a1',
    name: 'train-a1',
    index,
    size,
    label: `lr=${index}`,
    values: {},
    title: heading,
    max_concurrent: 0
  };
}

export function arraySummary(counts: Partial<ArraySummary['counts']> = {}): ArraySummary {
  const all = { pending: 0, running: 0, completed: 0, failed: 0, stopped: 0, ...counts };
  return {
    id: 'a1',
    name: 'train-a1',
    base_name: 'train',
    kind: 'train',
    size: Object.values(all).reduce((sum, count) => sum + count, 0),
    counts: all,
    title: heading,
    max_concurrent: 0,
    engine: 'local',
    instances: 'local × 1',
    created_at: 1000
  };
}

export function completed(number: number, fields: Partial<JobSummary> = {}): JobSummary {
  return job(number, {
    status: 'Completed',
    secondary_status: 'Completed',
    ended_at: 1100 + number,
    ...fields
  });
}

export function pool(number: number, fields: Partial<PoolSummary> = {}): PoolSummary {
  return {
    id: `pool-${number}`,
    name: `local-${number}`,
    engine: 'local',
    instances: 'local × 1',
    state: 'Available',
    created_at: 1000 + number,
    expires_at: 2000 + number,
    job: '',
    last_job: '',
    jobs_served: 1,
    saved_seconds: 0,
    idle_seconds: 0,
    idle_cost: null,
    idle_since: null,
    price_per_hour: null,
    isolation: '',
    preloaded: [],
    reason: '',
    image: null,
    ...fields
  };
}

export function event(
  seq: number,
  what: { job?: JobSummary; pool?: PoolSummary; deleted?: string }
): Event {
  return { seq, at: seq, job: null, pool: null, deleted: '', ...what };
}

export function changes(events: Event[], fields: Partial<Changes> = {}): Changes {
  const seq = Math.max(0, ...events.map(one => one.seq));
  return { events, seq, reset: false, ...fields };
}
