// What other extensions may ask for.

import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { JobSummary, PoolSummary } from './_types';
import type { IState } from './state/state';

/**
 * The jobs and pools of this user, kept up to date for as long as the page is open.
 */
export interface IJobsModel {
  readonly state: IState;
  /** Emitted after every change of the state. */
  readonly changed: ISignal<IJobsModel, IState>;
  /** Emitted with the jobs that got their verdict since this page looked last. */
  readonly ended: ISignal<IJobsModel, JobSummary[]>;
  /** Emitted with the pools that ended since this page looked last, without those that this page released. */
  readonly poolsEnded: ISignal<IJobsModel, PoolSummary[]>;
  /** The server's clock, in seconds since the epoch. */
  now(): number;
  /** List everything again. */
  refresh(): Promise<void>;
  /** Read what changed since this page looked last. */
  catchUp(): Promise<void>;
  /**
   * Read what changed if `id` is a job or an array that is not listed, as that of a card that was just drawn;
   * `recordsId` is that of the card's records, empty where it has none.
   */
  expectJob(id: string, recordsId: string): void;
  /** Start the controller, then list everything. */
  startController(): Promise<void>;
  /** List so many finished jobs at first. */
  setFinishedLimit(finished: number): Promise<void>;
  /** Read one more page of older jobs; nothing happens when there is none. */
  loadMore(): Promise<void>;
  stop(job: Pick<JobSummary, 'id'>): Promise<void>;
  /** Take the hosts of a spot job away; it begins again on others. */
  interrupt(job: Pick<JobSummary, 'id'>): Promise<void>;
  /** Run a job once more; gives the name of the new job. */
  rerun(job: Pick<JobSummary, 'id'>): Promise<string>;
  /** Stop all tasks of an array. */
  stopArray(id: string): Promise<void>;
  /** Delete a finished job, with its log and its files. */
  remove(job: Pick<JobSummary, 'id'>): Promise<void>;
  /** Move the end of an idle pool by some seconds. */
  extend(pool: PoolSummary, seconds: number): Promise<void>;
  release(pool: PoolSummary): Promise<void>;
}

export const IJobsModel = new Token<IJobsModel>(
  'jupyter-smx:IJobsModel',
  'The jobs and warm pools of this user, updated through Jupyter events.'
);
