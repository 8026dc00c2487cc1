// One tab with notifications, put together from fakes.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { JobSummary, PoolSummary } from '../_types';
import { Answers } from '../notify/answers';
import type { IAction } from '../notify/board';
import { Desktop } from '../notify/desktop';
import { Notifier } from '../notify/notifier';
import { Presence } from '../notify/presence';
import { Tabs } from '../notify/tabs';
import { Told } from '../notify/told';
import type { WishKind } from '../notify/wishes';
import { Wishes } from '../notify/wishes';
import { listed, NOTHING } from '../state';
import type { IJobsModel } from '../tokens';
import { job } from './examples';
import { addedCommands, FakeModel } from './fakes';
import { Locks, Memory, Page, Screen } from './notifying';

/** A model whose clock runs on with the timers, and in which jobs end. */
class RunningModel extends FakeModel {
  constructor(private readonly _from: number) {
    super();
    this._at = Date.now();
  }

  now = (): number => this._from + (Date.now() - this._at) / 1000;

  tick(seconds: number): void {
    this._at -= seconds * 1000;
  }

  end(...jobs: JobSummary[]): void {
    const all = new Map([...this.state.jobs, ...jobs.map(one => [one.id, one] as const)]);
    this.become({ ...this.state, jobs: all });
    this.ended.emit(jobs);
  }

  private _at: number;
}

export interface ITabOptions {
  trans: TranslationBundle;
  commands?: CommandRegistry;
  memory?: Memory;
  locks?: Locks;
  permission?: NotificationPermission;
  off?: WishKind[];
  isQuiet?: boolean;
  jobs?: JobSummary[];
  pools?: PoolSummary[];
  now?: number;
  offer?: () => IAction | null;
}

export interface ITab {
  model: RunningModel;
  notifier: Notifier;
  executed: [string, unknown][];
  lines: number[];
  hide: () => Promise<void>;
  show: () => Promise<void>;
  close: () => void;
}

function settings(values: ReadonlyMap<string, boolean>): ConstructorParameters<typeof Wishes>[0] {
  const get = (name: string): unknown => ({ composite: values.get(name) });
  const changed = { connect: () => true, disconnect: () => true };
  return { get, changed, set: () => Promise.resolve() } as unknown as ReturnType<typeof settings>;
}

/** What of a tab says and hears things, over the model and the page of a test. */
export function notifierOver(
  model: IJobsModel,
  page: Page,
  options: ITabOptions
): Pick<ITab, 'notifier' | 'executed' | 'lines'> {
  const { trans, memory = new Memory(), locks = new Locks(), off = [] } = options;
  Screen.permission = options.permission ?? 'granted';
  const { commands, executed } = addedCommands();
  const lines: number[] = [];
  const notifier = new Notifier({
    model,
    commands: options.commands ?? commands,
    trans,
    presence: new Presence(page, window, () => Date.now()),
    tabs: new Tabs(locks as unknown as LockManager, 'here'),
    desktop: new Desktop({
      Notification: Screen as unknown as typeof Notification,
      isSecureContext: true,
      focus: () => page.turn('visible')
    }),
    told: new Told(memory, 'told'),
    answers: new Answers(memory, 'answers'),
    wishes: new Wishes(
      settings(new Map(off.map(kind => [kind, false]))),
      settings(new Map([['doNotDisturbMode', options.isQuiet ?? false]]))
    ),
    offer: options.offer ?? (() => null),
    openLine: () => {
      const index = lines.push(1) - 1;
      return {
        isDisposed: false,
        dispose: () => {
          lines[index] = 0;
        }
      };
    }
  });
  return { notifier, executed, lines };
}

/** Open a tab that is seen, in which one job runs. */
export async function openTab(options: ITabOptions): Promise<ITab> {
  const model = new RunningModel(options.now ?? 1134);
  const page = new Page();
  const parts = notifierOver(model, page, options);
  const jobs = options.jobs ?? [job(50)];
  model.become(listed(NOTHING, jobs, options.pools ?? [], 1).state);
  await jest.advanceTimersByTimeAsync(0);
  const turned = async (state: DocumentVisibilityState): Promise<void> => {
    page.turn(state);
    // Until the locks are granted, and so that nothing happens at the moment at which the page was opened.
    await jest.advanceTimersByTimeAsync(1100);
  };
  return {
    model,
    ...parts,
    hide: () => turned('hidden'),
    show: () => turned('visible'),
    close: () => parts.notifier.dispose()
  };
}
