// A server that tests ask, and a page that somebody looks at or not.

import type { Event } from '@jupyterlab/services';
import { Stream } from '@lumino/signaling';

import type {
  ArraySummary,
  Changes,
  ErrorBody,
  Event as Change,
  JobSummary,
  PoolSummary
} from '../_types';
import type { ControllerInfo, IAnswer, IWhichJobs, JobAnswer } from '../api';
import { ApiError, sentenceIn } from '../errors';
import { CHANGE_SCHEMA, JobsModel } from '../model';
import { arraySummary, event, pool } from './examples';
import { Page } from './notifying';

const PROBLEM: ErrorBody = {
  code: 'ServiceUnavailable',
  message: 'It could not be started.',
  field: 'data_dir',
  value: '/x',
  rule: '',
  cure: 'Make the folder writable.',
  transient: false
};

/** A server with a clock that is ten seconds ahead at first, that counts what it is asked. */
export class FakeServer implements JobsModel.IApi {
  asked: string[] = [];
  jobList: JobSummary[] = [];
  poolList: PoolSummary[] = [];
  events: Change[] = [];
  arrayList: ArraySummary[] = [];
  seq = 0;
  now = 1010;
  reset = false;
  running = true;
  /** Events in one answer at most. */
  page = 1000;
  failure: ApiError | null = null;
  cannotStart = false;
  version: string | undefined = undefined;
  /** When set, answers wait for it. */
  gate: Promise<void> | null = null;

  happen(what: { job?: JobSummary; pool?: PoolSummary; deleted?: string }): number {
    this.seq += 1;
    this.events.push(event(this.seq, what));
    return this.seq;
  }

  controller(): Promise<IAnswer<ControllerInfo>> {
    return this.answer('controller', this.info());
  }

  startController(): Promise<IAnswer<ControllerInfo>> {
    if (this.cannotStart) {
      return Promise.reject(new ApiError(503, PROBLEM.code, sentenceIn(PROBLEM)));
    }
    this.running = true;
    return this.answer('start', this.info());
  }

  jobs(limit: number, which: IWhichJobs = {}): Promise<IAnswer<{ jobs: JobSummary[] }>> {
    const { before, status } = which;
    const from = before ? this.jobList.findIndex(one => one.id === before) + 1 : 0;
    const jobs = this.jobList
      .slice(from)
      .filter(one => !status || one.status === status)
      .slice(0, limit);
    return this.answer(['jobs', status, before].filter(Boolean).join(' '), { jobs });
  }

  async deleteJob(id: string): Promise<void> {
    await this.answer(`delete ${id}`, null);
  }

  pools(): Promise<IAnswer<{ pools: PoolSummary[] }>> {
    return this.answer('pools', { pools: this.poolList });
  }

  changes(since: number): Promise<IAnswer<Changes>> {
    const events = this.events.filter(one => one.seq > since).slice(0, this.page);
    return this.answer(`changes since ${since}`, { events, seq: this.seq, reset: this.reset });
  }

  stopJob(id: string): Promise<IAnswer<unknown>> {
    return this.answer(`stop ${id}`, {});
  }

  interruptJob(id: string): Promise<IAnswer<unknown>> {
    return this.answer(`interrupt ${id}`, {});
  }

  rerunJob(id: string, newId: string): Promise<IAnswer<JobAnswer>> {
    return this.answer(`rerun ${id} ${newId}`, { id: newId, name: `${id}-again` });
  }

  arrays(): Promise<IAnswer<{ arrays: ArraySummary[] }>> {
    return this.answer('arrays', { arrays: this.arrayList });
  }

  array(id: string): Promise<IAnswer<ArraySummary>> {
    const found = this.arrayList.find(one => one.id === id);
    return this.answer(`array ${id}`, found ?? arraySummary());
  }

  stopArray(id: string): Promise<IAnswer<unknown>> {
    return this.answer(`stop array ${id}`, {});
  }

  keepPool(id: string, seconds: number): Promise<IAnswer<PoolSummary>> {
    return this.answer(`keep ${id} ${seconds}`, pool(1));
  }

  releasePool(id: string): Promise<IAnswer<PoolSummary>> {
    return this.answer(`release ${id}`, pool(1));
  }

  private info(): ControllerInfo {
    if (this.running) {
      return { running: true, version: '0', seq: this.seq };
    }
    return this.cannotStart ? { running: false, problem: PROBLEM } : { running: false };
  }

  private async answer<T>(what: string, body: T): Promise<IAnswer<T>> {
    this.asked.push(what);
    await this.gate;
    if (this.failure) {
      throw this.failure;
    }
    return { body, now: this.now, version: this.version };
  }
}

export class FakePage extends Page {
  show(): void {
    this.turn(this.visibilityState);
  }
}

export interface IOpenModel {
  server: FakeServer;
  page: FakePage;
  model: JobsModel;
  /** Let the event bus say something. */
  hear: (seq: number, kind?: string) => void;
  bus: Stream<Event.IManager, Event.Emission>;
}

/** A model over a server that a test has in its hands. */
export function openModel(clock = (): number => 1000): IOpenModel {
  const server = new FakeServer();
  const page = new FakePage();
  const bus = new Stream<Event.IManager, Event.Emission>({} as Event.IManager);
  const given = { api: server, events: bus, page: page as never };
  const model = new JobsModel({
    ...given,
    clock,
    newId: () => 'new',
    random: () => 0.5
  });
  const hear = (seq: number, kind = 'job'): void =>
    bus.emit({ schema_id: CHANGE_SCHEMA, seq, kind });
  return { server, page, model, hear, bus };
}

/** Let everything that was asked for be answered, while timers are faked. */
export async function settled(): Promise<void> {
  await jest.advanceTimersByTimeAsync(0);
}
