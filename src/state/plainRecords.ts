// Records as views can show them: texts of others without control characters and marks of direction, and not too long.

import type { JobSummary, PoolSummary } from '../_types';
import { NAME_LIMIT, plainText, TEXT_LIMIT } from '../format/plainText';

/** Characters of what a job counts, as `epoch 7/10`, of an engine with its target, and of one machine. */
const [COUNT_LIMIT, ENGINE_LIMIT] = [200, 80];

/** Machines of a pool, and packages that it imported. */
const LIST_LIMIT = 100;

/** Return a job whose texts can be shown; the same object if they can. A card may hold something else than texts. */
export function plainJob(job: JobSummary): JobSummary {
  const texts = {
    name: plain(job.name, NAME_LIMIT),
    engine: plain(job.engine, ENGINE_LIMIT),
    instances: plain(job.instances, NAME_LIMIT),
    message: plain(job.message, TEXT_LIMIT),
    failure_type: plain(job.failure_type, NAME_LIMIT)
  };
  const { array, progress } = job;
  const task = array && withTexts(array, arrayTexts(array));
  const count = progress && withTexts(progress, { text: plain(progress.text, COUNT_LIMIT) });
  return withTexts(job, { ...texts, array: task, progress: count });
}

function arrayTexts(array: NonNullable<JobSummary['array']>): Partial<typeof array> {
  return {
    name: plain(array.name, NAME_LIMIT),
    title: plain(array.title, NAME_LIMIT),
    label: plain(array.label, NAME_LIMIT)
  };
}

/** Return a pool whose texts can be shown; the same object if they can. */
export function plainPool<P extends PoolSummary>(pool: P): P {
  const texts: Partial<PoolSummary> = {
    name: plain(pool.name, NAME_LIMIT),
    engine: plain(pool.engine, ENGINE_LIMIT),
    instances: plain(pool.instances, NAME_LIMIT),
    job: plain(pool.job, NAME_LIMIT),
    last_job: plain(pool.last_job, NAME_LIMIT),
    reason: plain(pool.reason, TEXT_LIMIT),
    unreachable: plain(pool.unreachable, TEXT_LIMIT),
    disk_wait: plain(pool.disk_wait, TEXT_LIMIT),
    machines: plainList(pool.machines),
    preloaded: plainList(pool.preloaded)
  };
  return withTexts(pool, texts as Partial<P>);
}

function plain<T>(text: T, limit: number): T {
  return typeof text === 'string' ? (plainText(text, limit) as T & string) : text;
}

/** The same list if nothing in it changes; an older server may have none. */
function plainList(words: string[]): string[] {
  const isPlain = (words ?? []).every(word => plain(word, ENGINE_LIMIT) === word);
  return isPlain && (words ?? []).length <= LIST_LIMIT
    ? words
    : words.slice(0, LIST_LIMIT).map(word => plain(word, ENGINE_LIMIT));
}

/** Return the same object if it has these values already: thousands of records come with each listing. */
function withTexts<T extends object>(record: T, values: Partial<T>): T {
  const names = Object.keys(values) as (keyof T)[];
  return names.every(name => record[name] === values[name]) ? record : { ...record, ...values };
}
