// One list of jobs and pools per page: listed once, then followed by the numbers that Jupyter events announce.

import type { Event } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal, IStream } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { JobSummary, PoolSummary } from '../_types';
import type { ApiClient, IResponse } from '../api/client';
import { classifyFailure, failureFromBody } from '../api/errors';
import type { IPageVisibility } from '../api/pageVisibility';
import { Poller } from '../api/poller';
import { untilAnswered } from '../api/untilAnswered';
import { applyFailure } from '../state/connectionState';
import type { IState, IStateUpdate } from '../state/state';
import {
  appendPage,
  applyArrayCounts,
  applyChanges,
  applyControllerStopped,
  applyListing,
  arrayIds,
  EMPTY_STATE,
  extendedKeepAlive,
  removeJob
} from '../state/state';
import type { IJobsModel } from '../tokens';
import { ArrayCounter } from './arrayCounter';
import { type Read, readAfterEvent } from './changeEvent';
import { ChangeExpectation } from './changeExpectation';
import { nextCursor, PAGE, readListing } from './listing';

/**
 * Events are hints: they may be lost, and every holder of a token can forge them. So an event only says that there
 * is something new; the data comes from `changes?since=`, with at most one request at a time.
 */
export class JobsModel implements IJobsModel, IDisposable {
  constructor(options: JobsModel.IOptions) {
    this._api = options.api;
    this._page = options.page;
    this._clock = options.clock;
    this._expectation = new ChangeExpectation(options.clock);
    this._newId = options.newId;
    const random = options.random ?? Math.random;
    this._arrayCounter = new ArrayCounter(id => this._count(id), options.page, random);
    this._poller = new Poller({
      page: options.page,
      random,
      isBusy: () => this._expectation.isDue(this._state),
      poll: () => void this.catchUp()
    });
    options.events.connect(this._onEvent, this);
    this._page.addEventListener('visibilitychange', this._onVisible);
  }

  get state(): IState {
    return this._state;
  }

  get changed(): ISignal<this, IState> {
    return this._changed;
  }

  get ended(): ISignal<this, JobSummary[]> {
    return this._ended;
  }

  get poolsEnded(): ISignal<this, PoolSummary[]> {
    return this._poolsEnded;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._page.removeEventListener('visibilitychange', this._onVisible);
    this._poller.dispose();
    this._arrayCounter.dispose();
    Signal.clearData(this);
  }

  now(): number {
    return this._clock() + this._state.skew;
  }

  refresh(): Promise<void> {
    return this._request('list');
  }

  catchUp(): Promise<void> {
    return this._request('changes');
  }

  expectJob(id: string, recordsId: string): void {
    const { cardRecords } = this._state;
    if (recordsId !== '' && !cardRecords.has(recordsId)) {
      this._become({ ...this._state, cardRecords: new Set([...cardRecords, recordsId]) });
    }
    if (!isListed(id, this._state) && this._expectation.beginFor(id)) {
      void this._catchUpTo(id);
    }
  }

  async setFinishedLimit(limit: number): Promise<void> {
    if (limit !== this._state.limit) {
      this._state = { ...this._state, limit };
      const isUnasked = this._state.connectionStatus === 'unknown' && this._working === null;
      await (isUnasked ? null : this.refresh());
    }
  }

  async startController(): Promise<void> {
    this._expectation.begin();
    try {
      await untilAnswered(() => this._api.startController());
    } finally {
      // If the controller cannot be started, the listing says why: here, and on every other page.
      await this.refresh();
    }
  }

  async stop(job: Pick<JobSummary, 'id'>): Promise<void> {
    await this._api.stopJob(job.id);
    await this._request('changes');
  }

  async interrupt(job: Pick<JobSummary, 'id'>): Promise<void> {
    await this._api.interruptJob(job.id);
    await this._request('changes');
  }

  async rerun(job: Pick<JobSummary, 'id'>): Promise<string> {
    const newId = this._newId();
    this._expectation.begin();
    // The same id makes one job of repeated requests.
    const answer = await untilAnswered(() => this._api.rerunJob(job.id, newId));
    await this.catchUp();
    return answer.body.name;
  }

  async stopArray(id: string): Promise<void> {
    await this._api.stopArray(id);
    await this._request('changes');
  }

  async remove(job: Pick<JobSummary, 'id'>): Promise<void> {
    await this._api.deleteJob(job.id);
    const deleted = this._state.jobs.get(job.id) ?? null;
    // The deletion is announced as well; show it at once, without waiting for the event.
    this._become(removeJob(this._state, job.id));
    this._recount([deleted]);
  }

  loadMore(): Promise<void> {
    this._paging ??= this._readOn().finally(() => {
      this._paging = null;
    });
    return this._paging;
  }

  async extend(pool: PoolSummary, seconds: number): Promise<void> {
    const keepAlive = extendedKeepAlive(pool, seconds, this.now());
    if (keepAlive === null) {
      return;
    }
    await this._api.keepPool(pool.id, keepAlive);
    await this._request('changes');
  }

  async release(pool: PoolSummary): Promise<void> {
    this._releasedPools.add(pool.id); // first: its end may be announced before the answer
    await this._api.releasePool(pool.id).catch((reason: unknown) => {
      this._releasedPools.delete(pool.id);
      throw reason;
    });
    await this._request('changes');
  }

  private _onEvent(_sender: Event.IManager, event: Event.Emission): void {
    this._expectation.noteEvent();
    const read = readAfterEvent(event, this._state, this._isHidden);
    if (read !== 'nothing') {
      void this._request(read);
    }
  }

  private get _isHidden(): boolean {
    return this._page.visibilityState !== 'visible';
  }

  private readonly _onVisible = (): void => {
    // Events are lost while a browser freezes a hidden tab, and nothing says so.
    if (this._page.visibilityState === 'visible') {
      void this.catchUp();
      this._arrayCounter.countPending();
    }
  };

  /** Read what changed, unless the first listing, which may be under way, has the job or the array. */
  private async _catchUpTo(id: string): Promise<void> {
    if (this._state.connectionStatus === 'unknown') {
      await (this._working ?? this.refresh());
    }
    const { connectionStatus } = this._state;
    const isUsual = connectionStatus !== 'failing' && connectionStatus !== 'missing';
    if (isUsual && !isListed(id, this._state)) {
      await this.catchUp();
    }
  }

  private _request(wish: Read): Promise<void> {
    if (this._pendingRead !== 'list') {
      this._pendingRead = wish;
    }
    this._working ??= this._work().finally(() => {
      this._working = null;
    });
    return this._working;
  }

  private async _work(): Promise<void> {
    while (this._pendingRead !== 'nothing' && !this._isDisposed) {
      const wish = this._pendingRead;
      this._pendingRead = 'nothing';
      try {
        if (wish === 'list' || this._state.connectionStatus !== 'ready') {
          await this._list();
        } else {
          await this._follow();
        }
      } catch (reason) {
        this._fail(reason);
        return;
      }
    }
  }

  private async _list(): Promise<void> {
    // Read the number first: a change between the two requests is then applied twice, not lost.
    const info = await this._api.controller();
    const receivedAt = this._clock();
    const { records_note, records_id } = info.body;
    const records = { recordsNote: records_note ?? '', recordsId: records_id ?? null };
    this._state = { ...this._state, ...records };
    if (!info.body.running) {
      const { problem } = info.body;
      this._take(
        info,
        applyControllerStopped(this._state, problem ? failureFromBody(problem) : null)
      );
      return;
    }
    const { jobs, pools, arrays, cursor, ...listing } = await readListing(
      this._api,
      this._state.limit
    );
    const now = listing.now ?? info.now ?? this.now();
    const step = applyListing(this._state, jobs, pools, info.body.seq, cursor, now);
    this._take(info, { ...step, state: applyArrayCounts(step.state, arrays) }, receivedAt);
  }

  private async _readOn(): Promise<void> {
    const before = this._state.cursor;
    if (before === null || this._state.connectionStatus !== 'ready') {
      return;
    }
    try {
      const { jobs } = (await this._api.jobs(PAGE, { before })).body;
      if (this._state.cursor === before) {
        this._become(appendPage(this._state, jobs, nextCursor(jobs, PAGE)));
      } else {
        // The list now ends elsewhere, and a caller that requested the next page still expects one: read again.
        await this._readOn();
      }
    } catch (reason) {
      this._fail(reason);
    }
  }

  private async _follow(): Promise<void> {
    const answer = await this._api.changes(this._state.seq);
    if (answer.body.reset) {
      await this._list();
    } else {
      const { seq: before, jobs } = this._state;
      const { events } = answer.body;
      this._take(answer, applyChanges(this._state, answer.body));
      this._recount(events.map(({ job, deleted }) => job ?? jobs.get(deleted) ?? null));
      const isPart = this._state.seq < answer.body.seq && this._state.seq > before;
      if (isPart && this._pendingRead === 'nothing') {
        this._pendingRead = 'changes';
      }
    }
  }

  private _recount(jobs: readonly (JobSummary | null)[]): void {
    for (const id of arrayIds(jobs)) {
      this._arrayCounter.markChanged(id, this._state.arrays.has(id));
    }
  }

  private async _count(id: string): Promise<void> {
    const { body } = await this._api.array(id);
    this._become(applyArrayCounts(this._state, [body]));
  }

  /** Apply an answer; `receivedAt` is its time by this browser's clock. */
  private _take(answer: IResponse<unknown>, step: IStateUpdate, receivedAt = this._clock()): void {
    if (this._isDisposed) {
      return;
    }
    const skew = answer.now === null ? this._state.skew : answer.now - receivedAt;
    const lastResponseAt = receivedAt + skew;
    const serverVersion = answer.version ?? this._state.serverVersion;
    const awsUrl = answer.awsUrl ?? this._state.awsUrl;
    this._become({ ...step.state, skew, lastResponseAt, serverVersion, awsUrl });
    this._poller.recordSuccess();
    if (step.ended.length > 0) {
      this._ended.emit(step.ended);
    }
    const pools = (step.endedPools ?? []).filter(({ id }) => !this._releasedPools.has(id));
    if (pools.length > 0) {
      this._poolsEnded.emit(pools);
    }
  }

  private _become(state: IState): void {
    if (!this._isDisposed) {
      this._state = state;
      this._changed.emit(state);
    }
  }

  private _fail(reason: unknown): void {
    if (this._isDisposed) {
      return;
    }
    const failure = classifyFailure(reason);
    this._become(applyFailure(this._state, failure));
    this._poller.recordFailure(failure);
  }

  private readonly _api: JobsModel.IApi;
  private readonly _page: IPageVisibility;
  private readonly _clock: () => number;
  private readonly _newId: () => string;
  private readonly _arrayCounter: ArrayCounter;
  private readonly _poller: Poller;
  private readonly _changed = new Signal<this, IState>(this);
  private readonly _ended = new Signal<this, JobSummary[]>(this);
  private readonly _poolsEnded = new Signal<this, PoolSummary[]>(this);
  private readonly _releasedPools = new Set<string>();
  private _state: IState = EMPTY_STATE;
  private readonly _expectation: ChangeExpectation;
  private _pendingRead: Read = 'nothing';
  private _working: Promise<void> | null = null;
  private _paging: Promise<void> | null = null;
  private _isDisposed = false;
}

function isListed(id: string, { jobs, arrays }: IState): boolean {
  return jobs.has(id) || arrays.has(id);
}

/**
 * What a model needs from outside.
 */
export namespace JobsModel {
  export type IApi = Omit<ApiClient, 'shell' | 'read' | 'readBytes' | 'address'>;

  export interface IOptions {
    api: IApi;
    events: IStream<Event.IManager, Event.Emission>;
    page: IPageVisibility;
    /** Seconds since the epoch by this browser's clock. */
    clock: () => number;
    /** A new id for a job. */
    newId: () => string;
    /** From 0 to 1: spreads the requests of several pages. */
    random?: () => number;
  }
}
