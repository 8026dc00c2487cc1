// What the list is narrowed to: words that a job or a pool must have, each of them.

import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { JobSummary, PoolSummary } from '../_types';
import { formatImage } from '../format/jobText';

/** The text of the filter field, shared by the sections of the panel. */
export class Filter {
  get text(): string {
    return this._text;
  }

  set text(text: string) {
    if (text !== this._text) {
      this._text = text;
      this._changed.emit();
    }
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  jobs(jobs: JobSummary[]): JobSummary[] {
    return this._kept(jobs, job => [
      job.name,
      job.engine,
      job.instances,
      job.kind,
      job.status,
      job.secondary_status,
      job.failure_type,
      formatImage(job.image),
      job.array?.name ?? '',
      job.array?.title ?? ''
    ]);
  }

  pools<P extends PoolSummary>(pools: P[]): P[] {
    return this._kept(pools, pool => [
      pool.name,
      pool.engine,
      // An older server names no machines.
      ...(pool.machines ?? []),
      pool.instances,
      pool.state,
      formatImage(pool.image)
    ]);
  }

  private _kept<T>(all: T[], textOf: (one: T) => string[]): T[] {
    const words = this._text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      return all;
    }
    return all.filter(one => {
      const text = textOf(one).join(' ').toLowerCase();
      return words.every(word => text.includes(word));
    });
  }

  private readonly _changed = new Signal<this, void>(this);
  private _text = '';
}

/** The filter that the arguments of a command name; without one everything is let through. */
export function filterFromArgs({ filter }: ReadonlyPartialJSONObject): Filter {
  const found = new Filter();
  found.text = typeof filter === 'string' ? filter : '';
  return found;
}
