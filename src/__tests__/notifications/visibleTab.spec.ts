import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';

import type { JobSummary, PoolSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, pool } from '../fixtures/examples';
import { FakeDesktop, FakeLocks, FakeStorage } from '../fixtures/fakeBrowser';
import { fakeCommands } from '../fixtures/fakeModel';
import { openTab } from '../fixtures/notificationTab';

const trans = nullTranslator.load('jupyter_smx');

beforeEach(() => {
  jest.useFakeTimers({ now: 1_134_000 });
  FakeDesktop.clear();
  Notification.dismiss();
});

afterEach(() => {
  jest.useRealTimers();
});

function said(): string[] {
  return Notification.manager.notifications.map(one => one.message).reverse();
}

/** Wait until the locks have answered which tab shows a notification. */
async function claimed(): Promise<void> {
  await jest.advanceTimersByTimeAsync(0);
}

function press(label: string): void {
  const found = Notification.manager.notifications.find(one =>
    one.options.actions?.some(action => action.label === label)
  );
  found?.options.actions?.find(action => action.label === label)?.callback(new MouseEvent('click'));
  // JupyterLab does this after the call.
  Notification.dismiss(found?.id ?? 'none');
}

const failed = (number: number): JobSummary =>
  completed(number, { status: 'Failed', failure_type: 'KeyError', failure_line: 14 });

describe('a tab that is seen', () => {
  it('reports the end of each job, with a button that opens it', async () => {
    const tab = await openTab({ trans });
    tab.model.end(completed(1));
    await claimed();
    expect(said()).toEqual(['train-digits-1 completed after 1 min 40 s']);
    press('Open job');
    expect(tab.executed).toEqual([[CommandIDs.openJob, 'job-1']]);
    expect(FakeDesktop.made).toBe(0);
    tab.close();
  });

  it('opens the panel if there is no view of a job', async () => {
    const { commands, executed } = fakeCommands([CommandIDs.openJob]);
    const tab = await openTab({ trans, commands });
    tab.model.end(completed(1));
    await claimed();
    press('Show jobs');
    expect(executed).toEqual([[CommandIDs.openPanel, undefined]]);
    tab.close();
  });

  it('reports many in one toast, which counts on while more end', async () => {
    const tab = await openTab({ trans });
    for (let number = 1; number <= 20; number++) {
      tab.model.end(number === 7 ? failed(7) : completed(number));
      await jest.advanceTimersByTimeAsync(1000);
    }
    expect(said().sort()).toEqual([
      '19 jobs ended: 19 finished',
      'train-digits-7: Failed: KeyError, line 14'
    ]);
    await jest.advanceTimersByTimeAsync(60_000);
    tab.model.tick(80);
    tab.model.end(completed(99));
    await claimed();
    expect(said()).toHaveLength(3);
    tab.close();
  });

  it('repeats the offer of its first toast when many become one, and not in the next', async () => {
    const offers = [{ label: trans.__('On the desktop'), callback: () => undefined }];
    const tab = await openTab({ trans, offer: () => offers.pop() ?? null });
    const offered = (): string[] =>
      (Notification.manager.notifications[0].options.actions ?? []).map(action => action.label);
    for (let number = 1; number <= 5; number++) {
      tab.model.end(completed(number));
      await jest.advanceTimersByTimeAsync(1000);
      expect(said()).toHaveLength(number > 3 ? 1 : number);
    }
    expect(offered()).toEqual(['Show jobs', 'On the desktop']);
    press('On the desktop');
    tab.model.end(completed(6));
    await claimed();
    expect(offered()).toEqual(['Show jobs']);
    tab.model.tick(80);
    tab.model.end(completed(99));
    await claimed();
    expect(offered()).toEqual(['Open job', 'Show jobs']);
    tab.close();
  });

  it('has two buttons in its first toast, so that they fit on one line', async () => {
    const offers = [{ label: trans.__('On the desktop'), callback: () => undefined }];
    const tab = await openTab({ trans, offer: () => offers.pop() ?? null });
    tab.model.end(completed(1));
    await claimed();
    const [{ options }] = Notification.manager.notifications;
    expect(options.actions?.map(action => action.label)).toEqual(['Open job', 'On the desktop']);
    tab.close();
  });

  it('counts failures of a minute in one toast, which closes after a minute', async () => {
    const tab = await openTab({ trans });
    const toast = (): (typeof Notification.manager.notifications)[0] =>
      Notification.manager.notifications[0];
    tab.model.end(failed(1));
    await claimed();
    expect(said()).toEqual(['train-digits-1: Failed: KeyError, line 14']);
    expect(toast().options.autoClose).toBe(60_000);
    tab.model.tick(30);
    tab.model.end(failed(2), { ...failed(3), failure_line: 3 });
    await claimed();
    expect(said()).toEqual(['3 jobs failed']);
    expect([toast().options.autoClose, toast().type]).toEqual([60_000, 'error']);
    press('Show jobs');
    expect(tab.executed).toEqual([[CommandIDs.openPanel, undefined]]);
    tab.model.end(failed(4), failed(5));
    await claimed();
    expect(said()).toEqual(['2 jobs failed at line 14']);
    tab.model.tick(600);
    tab.model.end(failed(6));
    await claimed();
    expect(said()).toContain('train-digits-6: Failed: KeyError, line 14');
    tab.close();
  });

  it('shows nothing that is switched off', async () => {
    const tab = await openTab({ trans, off: ['jobCompleted'] });
    tab.model.end(completed(1), failed(2));
    await claimed();
    expect(said()).toEqual(['train-digits-2: Failed: KeyError, line 14']);
    tab.close();
  });
});

describe('two tabs of one browser that are visible side by side', () => {
  const shared = (): { memory: FakeStorage; locks: FakeLocks } => ({
    memory: new FakeStorage(),
    locks: new FakeLocks()
  });

  /** A tab that cannot read yet what another one stored. */
  const blind = (locks: FakeLocks): { memory: FakeStorage; locks: FakeLocks } => ({
    memory: new FakeStorage(),
    locks
  });

  it('show each job once, although neither can read yet what the other stored', async () => {
    const { locks } = shared();
    const tabs = [
      await openTab({ trans, ...blind(locks) }),
      await openTab({ trans, ...blind(locks) })
    ];
    tabs.forEach(tab => tab.model.end(completed(1)));
    [...tabs].reverse().forEach(tab => tab.model.end(failed(2)));
    await claimed();
    expect(said()).toEqual([
      'train-digits-1 completed after 1 min 40 s',
      'train-digits-2: Failed: KeyError, line 14'
    ]);
    tabs.forEach(tab => tab.close());
  });

  it('show once what ended while the machine slept', async () => {
    const { locks } = shared();
    const tabs = [
      await openTab({ trans, ...blind(locks) }),
      await openTab({ trans, ...blind(locks) })
    ];
    tabs.forEach(tab => {
      tab.model.refresh.mockImplementation(() => {
        tab.model.end(completed(1), completed(2));
        return Promise.resolve();
      });
    });
    jest.setSystemTime(Date.now() + 3_600_000);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(said()).toEqual(['While you were away: 2 finished']);
    tabs.forEach(tab => tab.close());
  });

  it('read the stored record after a claim has ended', async () => {
    const both = shared();
    const [early, late] = [await openTab({ trans, ...both }), await openTab({ trans, ...both })];
    early.model.end(completed(1));
    await jest.advanceTimersByTimeAsync(61_000);
    late.model.end(completed(1));
    await claimed();
    expect(said()).toHaveLength(1);
    early.close();
    late.close();
  });

  it('read the stored record where the browser has no locks', async () => {
    const memory = new FakeStorage();
    const tabs = [
      await openTab({ trans, memory, locks: null }),
      await openTab({ trans, memory, locks: null })
    ];
    tabs.forEach(tab => tab.model.end(completed(1)));
    await claimed();
    expect(said()).toHaveLength(1);
    tabs.forEach(tab => tab.close());
  });
});

describe('a user who returns', () => {
  it('gets one entry about what ended in the meantime', async () => {
    const tab = await openTab({ trans, permission: 'default' });
    await tab.hide();
    tab.model.end(completed(1));
    tab.model.end(completed(2), failed(3));
    expect(said()).toEqual([]);
    await tab.show();
    expect(tab.model.catchUp).toHaveBeenCalledTimes(1);
    expect(said()).toEqual(['While you were away: 2 finished, 1 failed at line 14']);
    await tab.hide();
    await tab.show();
    expect(said()).toHaveLength(1);
    tab.close();
  });

  it('gets it only after the changes were read', async () => {
    const tab = await openTab({ trans });
    await tab.hide();
    let read: () => void = () => undefined;
    tab.model.catchUp.mockReturnValue(new Promise<void>(resolve => (read = resolve)));
    await tab.show();
    tab.model.end(completed(1));
    tab.model.end(completed(2));
    expect(said()).toEqual([]);
    read();
    await jest.advanceTimersByTimeAsync(0);
    expect(said()).toEqual(['While you were away: 2 finished']);
    tab.close();
  });

  it('gets each job once after the server did not answer for a while', async () => {
    const tab = await openTab({ trans });
    await tab.hide();
    const { state } = tab.model;
    tab.model.become({ ...state, connectionStatus: 'failing' });
    await tab.show();
    tab.model.state = state;
    tab.model.end(completed(1));
    await jest.advanceTimersByTimeAsync(0);
    expect(said()).toEqual(['While you were away: train-digits-1 completed after 1 min 40 s']);
    tab.close();
  });

  it('gets it for what ended while the page was closed, but not again for what was announced', async () => {
    const storage = new FakeStorage();
    const first = await openTab({ trans, memory: storage });
    first.model.end(completed(1, { ended_at: 1130 }));
    await claimed();
    first.close();
    const jobs = [completed(1, { ended_at: 1130 }), completed(2, { ended_at: 1500 }), failed(3)];
    jobs[2] = { ...jobs[2], ended_at: 1501 };
    const next = await openTab({ trans, memory: storage, jobs, now: 2000 });
    expect(said()).toEqual([
      'train-digits-1 completed after 2 min 9 s',
      'While you were away: 1 finished, 1 failed at line 14'
    ]);
    next.close();
  });

  it('gets no entry from a second tab about what the first one announced', async () => {
    const memory = new FakeStorage();
    const [seen, other] = [await openTab({ trans, memory }), await openTab({ trans, memory })];
    await other.hide();
    seen.model.end(completed(1));
    other.model.end(completed(1));
    await other.show();
    expect(said()).toEqual(['train-digits-1 completed after 1 min 40 s']);
    seen.close();
    other.close();
  });

  it('gets news after the machine slept, although the tab was visible all the time', async () => {
    const tab = await openTab({ trans });
    tab.model.refresh.mockImplementation(() => {
      tab.model.end(completed(1), completed(2));
      return Promise.resolve();
    });
    await jest.advanceTimersByTimeAsync(60_000);
    expect(tab.model.refresh).not.toHaveBeenCalled();
    jest.setSystemTime(Date.now() + 3_600_000);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(tab.model.refresh).toHaveBeenCalledTimes(1);
    expect(said()).toEqual(['While you were away: 2 finished']);
    tab.close();
  });

  it('costs one read of what other tabs announced, however much ended', async () => {
    const memory = new FakeStorage();
    const tab = await openTab({ trans, memory, permission: 'denied' });
    await tab.hide();
    tab.model.end(...Array.from({ length: 500 }, (_, number) => completed(number)));
    const read = jest.spyOn(memory, 'getItem');
    tab.notifier.onOtherTab();
    expect(read.mock.calls.length).toBeLessThan(10);
    tab.close();
  });

  it('gets no such entry if it is switched off', async () => {
    const tab = await openTab({ trans, off: ['whileAway'] });
    await tab.hide();
    tab.model.end(completed(1));
    await tab.show();
    expect(said()).toEqual([]);
    tab.close();
  });
});

describe('the question about a pool', () => {
  const pools = (fields: Partial<PoolSummary> = {}): PoolSummary[] => [
    pool(1, { idle_since: 1000, expires_at: 1600, price_per_hour: 0.23, ...fields })
  ];

  async function untilAsked(): Promise<void> {
    // The model's clock says 1134.
    await jest.advanceTimersByTimeAsync((1600 - 120 - 1134) * 1000 + 100);
  }

  it('is asked once, two minutes before the end, and extends', async () => {
    const tab = await openTab({ trans, pools: pools() });
    await jest.advanceTimersByTimeAsync((1600 - 121 - 1134) * 1000);
    expect(said()).toEqual([]);
    await jest.advanceTimersByTimeAsync(1100);
    expect(said()).toHaveLength(1);
    expect(said()[0]).toMatch(/^Pool local × 1 expires in 2 min, at .* Another 15 min: \$0.06.$/);
    await jest.advanceTimersByTimeAsync(60_000);
    tab.model.become(tab.model.state);
    expect(said()).toHaveLength(1);
    press('Extend');
    expect(tab.executed).toEqual([[CommandIDs.extendPool, 'pool-1']]);
    tab.model.become(tab.model.state);
    expect(said()).toEqual([]);
    tab.close();
  });

  it.each([
    ['extended', { expires_at: 2500 }],
    ['reused', { expires_at: null, state: 'InUse' }]
  ])('goes when the pool was %s meanwhile', async (_, fields) => {
    const tab = await openTab({ trans, pools: pools() });
    await untilAsked();
    expect(said()).toHaveLength(1);
    tab.model.become(applyListing(EMPTY_STATE, [], pools(fields), 2).state);
    expect(said()).toEqual([]);
    tab.close();
  });

  it('closes when it was answered in another tab, and is not asked again after a reload', async () => {
    const memory = new FakeStorage();
    const tab = await openTab({ trans, memory, pools: pools() });
    await untilAsked();
    const other = await openTab({ trans, memory, pools: pools(), now: 1490 });
    expect(said()).toHaveLength(2);
    press('Dismiss');
    expect(said()).toHaveLength(1);
    tab.notifier.onOtherTab();
    other.notifier.onOtherTab();
    expect(said()).toEqual([]);
    const again = await openTab({ trans, memory, pools: pools(), now: 1500 });
    expect(said()).toEqual([]);
    expect(tab.executed).toEqual([]);
    [tab, other, again].forEach(one => one.close());
  });

  it('closes with the pool if the user does not answer', async () => {
    const tab = await openTab({ trans, pools: pools() });
    await untilAsked();
    await jest.advanceTimersByTimeAsync(121_000);
    expect(said()).toEqual([]);
    tab.close();
  });

  it('is not asked if it is switched off', async () => {
    const tab = await openTab({ trans, pools: pools(), off: ['poolEnding'] });
    await untilAsked();
    expect(said()).toEqual([]);
    tab.close();
  });
});
