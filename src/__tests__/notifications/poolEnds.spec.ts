import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';

import type { PoolSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { formatMoment } from '../../format/numbers';
import { formatPoolEnds } from '../../notifications/messages';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { pool } from '../fixtures/examples';
import { FakeLocks } from '../fixtures/fakeBrowser';
import type { ITab } from '../fixtures/notificationTab';
import { openTab } from '../fixtures/notificationTab';

const trans = nullTranslator.load('jupyter_smx');
const EVICTED = 'Released early to make room for explore-1b2c3d.';

beforeEach(() => {
  jest.useFakeTimers({ now: 1_134_000 });
  Notification.dismiss();
});

afterEach(() => {
  jest.useRealTimers();
});

const said = (): string[] => Notification.manager.notifications.map(one => one.message).reverse();

/** A pool that is kept from 1000 until 1600; the clock of a tab says 1134. */
const kept = (number: number, fields: Partial<PoolSummary> = {}): PoolSummary =>
  pool(number, { idle_since: 1000, expires_at: 1600, ...fields });

const over = (number: number, reason: string): PoolSummary =>
  pool(number, { state: 'Releasing', expires_at: null, reason });

async function end(tab: ITab, ...pools: PoolSummary[]): Promise<void> {
  const left = new Map(tab.model.state.pools);
  pools.forEach(one => left.delete(one.id));
  tab.model.become({ ...tab.model.state, pools: left });
  tab.model.poolsEnded.emit(pools);
  await jest.advanceTimersByTimeAsync(0);
}

describe('a kept pool that ended before its keep-alive', () => {
  const until = formatMoment(1600, 1134);

  it.each([
    [EVICTED, EVICTED],
    ['Released by the user.', 'Released by another client.'],
    ['The machine of algo-1 was taken away.', 'The machine of algo-1 was taken away.']
  ])('is told with its reason: %s', async (reason, words) => {
    const tab = await openTab({ trans, pools: [kept(1)] });
    await end(tab, over(1, reason));
    expect(said()).toEqual([`Pool local-1, kept until ${until}, has ended: ${words}`]);
    const [{ type, options }] = Notification.manager.notifications;
    expect([type, options.autoClose]).toEqual(['warning', 30_000]);
    options.actions?.[0].callback(new MouseEvent('click'));
    expect(tab.executed).toEqual([[CommandIDs.openPanel, undefined]]);
    tab.close();
  });

  it('is told although a job used it last', async () => {
    const tab = await openTab({ trans, pools: [kept(1)] });
    const busy = kept(1, { state: 'InUse', expires_at: null, idle_since: null });
    tab.model.become(applyListing(EMPTY_STATE, [], [busy], 2).state);
    await end(tab, over(1, 'The quota for warm local instances is 1.'));
    expect(said()).toHaveLength(1);
    tab.close();
  });

  it('is told when the tab is seen again, unless its keep-alive is over by then', async () => {
    const tab = await openTab({ trans, pools: [kept(1), kept(2, { expires_at: 1200 })] });
    await tab.hide();
    await end(tab, over(1, EVICTED), over(2, EVICTED));
    expect(said()).toEqual([]);
    tab.model.tick(120);
    await tab.show();
    expect(said()).toHaveLength(1);
    expect(said()[0]).toContain('Pool local-1,');
    tab.close();
  });

  it('is told once, in one of two tabs, with others as a number', async () => {
    const locks = new FakeLocks();
    const pools = [kept(1), kept(2)];
    const tabs = [await openTab({ trans, locks, pools }), await openTab({ trans, locks, pools })];
    for (const tab of tabs) {
      await end(tab, over(1, EVICTED), over(2, EVICTED));
    }
    expect(said()).toEqual(['2 warm pools ended before their keep-alive.']);
    tabs.forEach(tab => tab.close());
  });

  it.each([
    ['its keep-alive is over', kept(1), 'The keep-alive expired.'],
    ['its job asked for it', kept(1), 'The job asked for no keep-alive.'],
    ['it was kept for a short time only', kept(1, { expires_at: 1170 }), EVICTED],
    ['it ends in a moment', kept(1, { idle_since: 900, expires_at: 1140 }), EVICTED],
    ['it was never idle here', pool(1, { state: 'InUse', expires_at: null }), EVICTED]
  ])('is not told where %s', async (_, before, reason) => {
    const tab = await openTab({ trans, pools: [before] });
    await end(tab, over(1, reason));
    expect(said()).toEqual([]);
    tab.close();
  });

  it('is not told where such notifications are switched off, nor by a tab that is gone', async () => {
    const tab = await openTab({ trans, pools: [kept(1), kept(2)], off: ['poolEnded'] });
    await end(tab, over(1, EVICTED));
    tab.close();
    await end(tab, over(2, EVICTED));
    expect(said()).toEqual([]);
  });

  it('has a reason of others as text that is cut, so that the message stays whole', () => {
    const hostile = over(1, `\u202e<b>${'n'.repeat(5000)}`);
    const words = formatPoolEnds([hostile], until, trans);
    expect(words.length).toBeLessThanOrEqual(140);
    expect(words).toContain('<b>nnn');
    expect(words).not.toContain('\u202e');
  });
});
