// Asks whether a warm pool shall be kept, as long as that is a question, and takes the question away when it is none.

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import type { PoolSummary } from '../_types';
import { EXTENSION_SECONDS } from '../commands/modelCommands';
import { formatMoment } from '../format/numbers';
import type { IJobsModel } from '../tokens';
import { formatPoolPrompt } from './messages';
import { duePools, promptKey, secondsToNextChange } from './poolDeadlines';
import type { PromptStore } from './promptStore';

export interface IPoolPromptOptions {
  model: IJobsModel;
  trans: TranslationBundle;
  promptStore: PromptStore;
  /** Whether such questions are wanted. */
  isWanted: () => boolean;
  isVisible: () => boolean;
  extend: (pool: PoolSummary) => void;
  /** Say it on the desktop, where that is allowed. */
  showOnDesktop: (pool: PoolSummary, title: string) => void;
  /** Take it from the desktop. */
  closeOnDesktop: (pool: string) => void;
}

interface IQuestion {
  pool: PoolSummary;
  /** The id of its toast; empty while it is on the desktop only. */
  toast: string;
}

export class PoolPrompt implements IDisposable {
  constructor(private readonly options: IPoolPromptOptions) {
    Notification.manager.changed.connect(this._onNotification, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
    Notification.manager.changed.disconnect(this._onNotification, this);
  }

  /** Look which questions are due, ask those that are new, and take away those that are over. */
  update(): void {
    const { model, promptStore, isWanted } = this.options;
    const pools = isWanted() ? duePools(model.state.pools.values(), model.now()) : [];
    const open = new Map(
      pools.map(pool => [promptKey(pool), pool] as const).filter(([one]) => !promptStore.has(one))
    );
    for (const [question, { pool, toast }] of [...this._asked]) {
      if (!open.has(question)) {
        this._asked.delete(question);
        this._takeAway(pool, toast);
      }
    }
    open.forEach((pool, question) => this._ask(question, pool));
    this._lookLater();
  }

  private _ask(question: string, pool: PoolSummary): void {
    const asked = this._asked.get(question);
    const { isVisible, showOnDesktop } = this.options;
    if (isVisible()) {
      this._asked.set(question, { pool, toast: asked?.toast || this._toast(pool) });
    } else if (!asked) {
      this._asked.set(question, { pool, toast: '' });
      showOnDesktop(pool, this._sentence(pool));
    }
  }

  private _toast(pool: PoolSummary): string {
    const { trans, extend } = this.options;
    return Notification.emit(this._sentence(pool), 'info', {
      autoClose: false,
      actions: [
        {
          label: trans.__('Extend'),
          caption: trans.__('Extend pool %1 by 15 minutes', pool.name),
          displayType: 'accent',
          callback: () => extend(pool)
        },
        {
          label: trans.__('Dismiss'),
          caption: trans.__('Pool %1 expires as scheduled', pool.name),
          // Closing the toast is the answer.
          callback: () => undefined
        }
      ]
    });
  }

  private _sentence(pool: PoolSummary): string {
    const { model, trans } = this.options;
    const { skew } = model.state;
    const time = formatMoment((pool.expires_at ?? 0) - skew, model.now() - skew);
    return formatPoolPrompt(pool, model.now(), EXTENSION_SECONDS, time, trans);
  }

  /** A toast that goes without our doing was answered, which other tabs are to know. */
  private _onNotification(_: unknown, change: Notification.IChange): void {
    if (change.type !== 'removed') {
      return;
    }
    for (const [question, { pool, toast }] of [...this._asked]) {
      if (toast === change.notification.id) {
        this._asked.delete(question);
        this.options.promptStore.add(question, pool.expires_at ?? 0, this.options.model.now());
        this.options.closeOnDesktop(pool.id);
      }
    }
  }

  private _takeAway(pool: PoolSummary, toast: string): void {
    if (toast !== '') {
      Notification.dismiss(toast);
    }
    this.options.closeOnDesktop(pool.id);
  }

  private _lookLater(): void {
    clearTimeout(this._timer);
    const { model } = this.options;
    const left = secondsToNextChange(model.state.pools.values(), model.now());
    if (left !== null && !this._isDisposed) {
      this._timer = setTimeout(() => this.update(), Math.min(left * 1000 + 50, LONGEST));
    }
  }

  private readonly _asked = new Map<string, IQuestion>();
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

/** Milliseconds; a browser takes a longer wait for none at all. */
const LONGEST = 2 ** 31 - 1;
