// Announces that jobs ended and that pools are about to: on the page while it is visible, else on the desktop.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';

import type { JobSummary, PoolSummary } from '../_types';
import { CommandIDs } from '../commands/commandIds';
import { finishedJobs, runningJobs } from '../state/state';
import type { IJobsModel } from '../tokens';
import type { DesktopNotifications } from './desktopNotifications';
import type { IAction } from './jobToasts';
import { JobToasts } from './jobToasts';
import { formatDesktopNotification } from './messages';
import type { NotificationSettings } from './notificationSettings';
import { PoolEnds } from './poolEnds';
import { PoolPrompt } from './poolPrompt';
import type { Presence } from './presence';
import type { PromptStore } from './promptStore';
import type { SeenStore } from './seenStore';
import type { TabLocks } from './tabLocks';

/** Milliseconds between two desktop notifications about jobs; later ends are in the next notification. */
const PAUSE = 5000;

/** Milliseconds after a change until the watch is taken or left, so that the change itself is still announced. */
const SETTLE = 1000;

/** Milliseconds for which a tab gets the watch if no other tab has it; each tab keeps it for longer than that. */
const GRANT = 500;

export interface INotifierOptions {
  model: IJobsModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
  presence: Presence;
  tabLocks: TabLocks;
  desktop: DesktopNotifications;
  seenStore: SeenStore;
  promptStore: PromptStore;
  settings: NotificationSettings;
  offer: () => IAction | null;
  /** Open a socket to the event bus that reconnects while the tab is hidden. */
  openSocket: () => IDisposable;
}

export class Notifier implements IDisposable {
  constructor(private readonly options: INotifierOptions) {
    const { model, presence, settings, trans, offer, promptStore } = options;
    this._toasts = new JobToasts({
      trans,
      clock: () => model.now(),
      actionsFor: jobs => this._actionsFor(jobs),
      offer
    });
    this._poolPrompt = new PoolPrompt({
      model,
      trans,
      promptStore,
      isWanted: () => settings.isOn('poolEnding'),
      isVisible: () => presence.isVisible,
      extend: pool => this._execute(CommandIDs.extendPool, pool.id),
      showOnDesktop: (pool, title) => void this._notePool(pool, title),
      closeOnDesktop: id => options.desktop.close(this._tag(`pool:${id}`))
    });
    this._poolEnds = new PoolEnds({
      model,
      trans,
      isWanted: () => settings.isOn('poolEnded'),
      isVisible: () => presence.isVisible,
      claim: id => options.tabLocks.claim(id),
      showPanel: () => this._execute(CommandIDs.openPanel)
    });
    model.changed.connect(this._onChanged, this);
    model.ended.connect(this._onEnded, this);
    presence.turned.connect(this._onTurned, this);
    presence.woke.connect(this._onWoke, this);
    settings.changed.connect(this._onChanged, this);
    options.tabLocks.setVisible(presence.isVisible);
    this._onChanged();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    const { model, presence, settings, tabLocks, desktop } = this.options;
    model.changed.disconnect(this._onChanged, this);
    model.ended.disconnect(this._onEnded, this);
    presence.turned.disconnect(this._onTurned, this);
    presence.woke.disconnect(this._onWoke, this);
    settings.changed.disconnect(this._onChanged, this);
    clearTimeout(this._settling);
    clearTimeout(this._noting);
    this._poolPrompt.dispose();
    this._poolEnds.dispose();
    presence.dispose();
    this._socket?.dispose();
    tabLocks.setVisible(false);
    tabLocks.watch(false, () => undefined);
    desktop.close();
  }

  /** Update after another tab of this browser announced or answered something. */
  onOtherTab(): void {
    this._poolPrompt.update();
    if (this._missedNow().length === 0) {
      this.options.desktop.close(this._tag(ENDED));
    }
  }

  private _onChanged(): void {
    // The model reports a change before it reports which jobs ended in it; both are one entry.
    queueMicrotask(() => this._sayAway());
    this._poolPrompt.update();
    this._keepWatchLater();
  }

  private _onEnded(_: unknown, jobs: JobSummary[]): void {
    const { model, seenStore, presence } = this.options;
    const now = model.now();
    const wanted = jobs.filter(job => this._isWanted(job));
    if (this._isAway || !presence.isVisible) {
      wanted.forEach(job => this._missed.set(job.id, { job, at: now }));
      if (wanted.length > 0 && !presence.isVisible) {
        void this._noteInTurn();
      }
      return;
    }
    void this._showOnce(wanted, untold => this._toasts.showEnded(untold));
    seenStore.add(idsOf(jobs), now);
    seenStore.markAllSeen(now);
  }

  private _onTurned(_: unknown, isVisible: boolean): void {
    const { model, tabLocks, desktop } = this.options;
    tabLocks.setVisible(isVisible);
    this._isAway = true;
    this._keepWatch();
    if (isVisible) {
      clearTimeout(this._noting);
      this._noting = undefined;
      desktop.close();
      void this._comeBack(() => model.catchUp());
    }
    void this._poolEnds.update();
    this._poolPrompt.update();
  }

  private _onWoke(): void {
    this._isAway = true;
    // After such a pause the number of the last change may be older than the controller's history.
    void this._comeBack(() => this.options.model.refresh());
  }

  /** Read first what happened in the meantime, then announce it in one entry. */
  private async _comeBack(read: () => Promise<void>): Promise<void> {
    this._readings += 1;
    await read().catch(() => undefined);
    this._readings -= 1;
    this._sayAway();
  }

  private _sayAway(): void {
    const { model, seenStore, presence, settings } = this.options;
    const isReady = model.state.connectionStatus === 'ready' && this._readings === 0;
    if (!this._isAway || !presence.isVisible || !isReady || this._isDisposed) {
      return;
    }
    this._isAway = false;
    const now = model.now();
    seenStore.begin(now);
    const over = finishedJobs(model.state);
    const listed = seenStore.unseen(over).filter(job => this._isWanted(job));
    const jobs = new Map([...listed, ...this._missedNow()].map(job => [job.id, job]));
    if (settings.isOn('whileAway')) {
      const isPart = model.state.cursor !== null && listed.length === over.length;
      void this._showOnce([...jobs.values()], untold =>
        this._toasts.showEndedWhileAway(untold, isPart)
      );
    }
    seenStore.add([...jobs.keys()], now);
    seenStore.markAllSeen(now);
    this._missed.clear();
  }

  /** Show the jobs that no other tab shows: several windows of one browser may be visible side by side. */
  private async _showOnce(
    jobs: readonly JobSummary[],
    show: (untold: readonly JobSummary[]) => void
  ): Promise<void> {
    const { seenStore, tabLocks } = this.options;
    const isTold = seenStore.seenTest();
    const claims = await Promise.all(
      jobs.map(
        async job => !isTold(job.id, Number.POSITIVE_INFINITY) && (await tabLocks.claim(job.id))
      )
    );
    const untold = jobs.filter((_, index) => claims[index]);
    if (untold.length > 0 && !this._isDisposed) {
      show(untold);
    }
  }

  /** Return what ended while this tab was hidden, and was announced in no other tab. */
  private _missedNow(): JobSummary[] {
    const isTold = this.options.seenStore.seenTest();
    for (const [id, { at }] of this._missed) {
      if (isTold(id, at)) {
        this._missed.delete(id);
      }
    }
    return [...this._missed.values()].map(({ job }) => job);
  }

  /** Announce, too, a job that ended before any tab took the watch: the tab that gets the watch does it. */
  private async _noteInTurn(): Promise<void> {
    const { tabLocks } = this.options;
    if (tabLocks.isWatching) {
      this._noteLater();
    } else if (!(await tabLocks.isAnyWatching())) {
      this._dueAt = Date.now();
      this._keepWatch();
    }
  }

  private get _isDue(): boolean {
    return Date.now() - this._dueAt < GRANT;
  }

  private _noteLater(): void {
    if (!this._mayNote() || this._noting !== undefined) {
      return;
    }
    const wait = this._notedAt + PAUSE - Date.now();
    if (wait <= 0) {
      // Without a timer: a hidden tab's timers run late.
      void this._noteEnded();
      return;
    }
    this._noting = setTimeout(() => {
      this._noting = undefined;
      void this._noteEnded();
    }, wait);
  }

  private async _noteEnded(): Promise<void> {
    const { tabLocks, desktop, trans } = this.options;
    this._notedAt = Date.now();
    const jobs = this._missedNow();
    if (jobs.length === 0 || (await tabLocks.isAnyVisible()) || !(await this._claimNote(jobs))) {
      this._notedAt = Number.NEGATIVE_INFINITY;
      return;
    }
    const onClick = (): void => this._open(jobs);
    desktop.show({ tag: this._tag(ENDED), ...formatDesktopNotification(jobs, trans), onClick });
  }

  /**
   * Return true if no other tab noted one of the jobs. The tab that had the watch may have left it, since no job runs
   * any more, before a slow one receives the end.
   */
  private async _claimNote(jobs: readonly JobSummary[]): Promise<boolean> {
    const { tabLocks } = this.options;
    const claims = await Promise.all(jobs.map(({ id }) => tabLocks.claim(`desktop:${id}`)));
    return claims.some(Boolean);
  }

  private async _notePool(pool: PoolSummary, body: string): Promise<void> {
    const { tabLocks, desktop, trans } = this.options;
    if (!this._mayNote() || (await tabLocks.isAnyVisible())) {
      return;
    }
    const title = trans.__('Extend the warm pool?');
    const onClick = (): void => this._execute(CommandIDs.openPanel);
    desktop.show({ tag: this._tag(`pool:${pool.id}`), title, body, onClick });
  }

  private _mayNote(): boolean {
    return this._isAllowed() && this.options.tabLocks.isWatching;
  }

  private _isAllowed(): boolean {
    const { presence, settings, desktop } = this.options;
    return (
      !presence.isVisible &&
      settings.isOn('desktop') &&
      !settings.isDoNotDisturb &&
      desktop.permission === 'granted'
    );
  }

  private _keepWatchLater(): void {
    this._settling ??= setTimeout(() => this._keepWatch(), SETTLE);
  }

  /** Keep the watch while the tab is hidden, something may have to be announced, and no other tab has it. */
  private _keepWatch(): void {
    clearTimeout(this._settling);
    this._settling = undefined;
    if (this._isDisposed) {
      return;
    }
    const { model, tabLocks, openSocket } = this.options;
    const isDue = this._isDue;
    if (isDue) {
      this._keepWatchLater();
    }
    const pools = [...model.state.pools.values()];
    const awaits =
      runningJobs(model.state).length > 0 || pools.some(pool => pool.expires_at !== null);
    tabLocks.watch(this._isAllowed() && (awaits || isDue), () => this._keepWatch());
    if (tabLocks.isWatching) {
      this._socket ??= openSocket();
      if (isDue) {
        this._dueAt = Number.NEGATIVE_INFINITY;
        this._noteLater();
      }
    } else {
      this._socket?.dispose();
      this._socket = null;
    }
  }

  private _isWanted(job: JobSummary): boolean {
    const { settings } = this.options;
    switch (job.status) {
      case 'Completed':
        return settings.isOn('jobCompleted');
      case 'Failed':
        return settings.isOn('jobFailed');
      default:
        return settings.isOn('jobStopped');
    }
  }

  private _actionsFor(jobs: readonly JobSummary[]): IAction[] {
    const { commands, trans } = this.options;
    const actions: IAction[] = [];
    if (jobs.length === 1 && commands.hasCommand(CommandIDs.openJob)) {
      actions.push({ label: trans.__('Open job'), callback: () => this._open(jobs) });
    }
    if (commands.hasCommand(CommandIDs.openPanel)) {
      const callback = (): void => this._execute(CommandIDs.openPanel);
      actions.push({ label: trans.__('Show jobs'), callback });
    }
    return actions;
  }

  /** Open the only job, or the panel, and note that the user has seen these jobs. */
  private _open(jobs: readonly JobSummary[]): void {
    const { commands, seenStore, model } = this.options;
    seenStore.add(idsOf(jobs), model.now());
    if (jobs.length === 1 && commands.hasCommand(CommandIDs.openJob)) {
      this._execute(CommandIDs.openJob, jobs[0].id);
    } else {
      this._execute(CommandIDs.openPanel);
    }
  }

  private _execute(command: string, id = ''): void {
    const { commands } = this.options;
    if (commands.hasCommand(command)) {
      void commands.execute(command, id ? { id } : {});
    }
  }

  private _tag(what: string): string {
    return `${this.options.seenStore.key}:${what}`;
  }

  private readonly _toasts: JobToasts;
  private readonly _poolPrompt: PoolPrompt;
  private readonly _poolEnds: PoolEnds;
  private readonly _missed = new Map<string, { job: JobSummary; at: number }>();
  /** True from when the tab is hidden, or the machine slept, until the events of that time are announced. */
  private _isAway = true;
  private _readings = 0;
  private _socket: IDisposable | null = null;
  private _notedAt = Number.NEGATIVE_INFINITY;
  /** When the desktop is due a notification on ended jobs from the tab that has the watch. */
  private _dueAt = Number.NEGATIVE_INFINITY;
  private _noting: ReturnType<typeof setTimeout> | undefined;
  private _settling: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

const ENDED = 'ended';

function idsOf(jobs: readonly JobSummary[]): string[] {
  return jobs.map(job => job.id);
}
