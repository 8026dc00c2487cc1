// Says that kept pools ended before their keep-alive: another job needed the room, another client released them.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import type { PoolSummary } from '../_types';
import { formatMoment } from '../format/numbers';
import type { IJobsModel } from '../tokens';
import { formatPoolEnds, isExpectedEnd } from './messages';
import { mayAsk } from './poolDeadlines';

/** Seconds before its deadline in which the end of a pool is no news. */
const MARGIN = 10;

/** Milliseconds that the notification stays; its entry in the notification center stays until it is dismissed. */
const DURATION = 30_000;

export interface IPoolEndOptions {
  model: IJobsModel;
  trans: TranslationBundle;
  isWanted: () => boolean;
  isVisible: () => boolean;
  /** Return true in the first tab of this browser that claims `id`. */
  claim: (id: string) => Promise<boolean>;
  showPanel: () => void;
}

/** A pool that ended, and until when it was kept (the server's clock). */
interface IPoolEnd {
  pool: PoolSummary;
  until: number;
}

export class PoolEnds implements IDisposable {
  constructor(private readonly options: IPoolEndOptions) {
    options.model.changed.connect(this._note, this);
    options.model.poolsEnded.connect(this._onEnded, this);
    this._note();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this.options.model.changed.disconnect(this._note, this);
    this.options.model.poolsEnded.disconnect(this._onEnded, this);
  }

  /** Say what is still of interest of the ends that came while the tab was hidden. */
  async update(): Promise<void> {
    const { model, isVisible, isWanted, claim } = this.options;
    if (!isVisible() || this._ends.length === 0) {
      return;
    }
    const ends = this._ends.filter(({ until }) => until - model.now() > MARGIN);
    this._ends = [];
    const claims = await Promise.all(ends.map(({ pool }) => claim(`pool-end:${pool.id}`)));
    const untold = ends.filter((_, index) => claims[index]);
    if (untold.length > 0 && isWanted() && !this._isDisposed) {
      this._say(untold);
    }
  }

  /** Remember until when pools are kept: a pool that is in use, or over, does not say it. */
  private _note(): void {
    for (const pool of this.options.model.state.pools.values()) {
      if (mayAsk(pool)) {
        this._keptUntil.set(pool.id, pool.expires_at);
      } else if (pool.expires_at !== null) {
        this._keptUntil.delete(pool.id);
      }
    }
  }

  private _onEnded(_: unknown, pools: PoolSummary[]): void {
    for (const pool of pools) {
      const until = this._keptUntil.get(pool.id);
      this._keptUntil.delete(pool.id);
      if (until !== undefined && !isExpectedEnd(pool)) {
        this._ends.push({ pool, until });
      }
    }
    void this.update();
  }

  private _say(ends: readonly IPoolEnd[]): void {
    const { model, trans, showPanel } = this.options;
    const { skew } = model.state;
    const time = formatMoment(ends[0].until - skew, model.now() - skew);
    const pools = ends.map(({ pool }) => pool);
    Notification.emit(formatPoolEnds(pools, time, trans), 'warning', {
      autoClose: DURATION,
      actions: [{ label: trans.__('Show pools'), callback: showPanel }]
    });
  }

  private readonly _keptUntil = new Map<string, number>();
  private _ends: IPoolEnd[] = [];
  private _isDisposed = false;
}
