import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';

import type { JobSummary } from '../../_types';
import { CHANGE_SCHEMA } from '../../model/changeEvent';
import { completed, job } from '../fixtures/examples';
import { FakeDesktop, FakeLocks, FakeStorage } from '../fixtures/fakeBrowser';
import type { IOpenModel } from '../fixtures/fakeServer';
import { openModel, settled } from '../fixtures/fakeServer';
import type { ITabOptions } from '../fixtures/notificationTab';
import { notifierOver } from '../fixtures/notificationTab';

const trans = nullTranslator.load('jupyter_smx');

interface IPageOfATest extends IOpenModel {
  lines: number[];
  /** Have the server say on the bus what became of a job. */
  hint: (job: JobSummary) => void;
}

const open: IOpenModel[] = [];
const closing: (() => void)[] = [];

/** A page with the real model, in which nothing runs, some time ago. */
async function openPage(options: Partial<ITabOptions> = {}): Promise<IPageOfATest> {
  const one = openModel();
  const { notifier, lines } = notifierOver(one.model, one.page, { trans, ...options });
  open.push(one);
  closing.push(() => notifier.dispose());
  await one.model.refresh();
  await settled();
  one.server.now = 1102;
  const hint = ({ id, status }: JobSummary): void =>
    one.bus.emit({ schema_id: CHANGE_SCHEMA, kind: 'job', seq: one.server.seq, id, status });
  return { ...one, lines, hint };
}

async function turned({ page }: IPageOfATest, visibility: DocumentVisibilityState): Promise<void> {
  page.turn(visibility);
  // Longer than a watch is kept that nothing needs.
  await jest.advanceTimersByTimeAsync(1100);
}

const titles = (): string[] => FakeDesktop.shown.map(one => one.title);

function said(): string[] {
  return Notification.manager.notifications.map(one => one.message).reverse();
}

describe('a job that is over at once', () => {
  beforeEach(() => {
    jest.useFakeTimers({ now: 1_134_000 });
    FakeDesktop.clear();
    Notification.dismiss();
  });

  afterEach(() => {
    closing.splice(0).forEach(close => close());
    open.splice(0).forEach(one => one.model.dispose());
    jest.useRealTimers();
  });

  it('is told on the desktop by a hidden page that waited for nothing, and when somebody comes back', async () => {
    const tab = await openPage();
    await turned(tab, 'hidden');
    expect(tab.lines).toEqual([]);
    tab.server.happen({ job: job(1) });
    tab.server.happen({ job: completed(1) });
    tab.hint(completed(1));
    await settled();
    expect(titles()).toEqual(['train-digits-1 completed after 1 min 40 s']);
    // The watch was taken for that, and is left.
    await jest.advanceTimersByTimeAsync(1100);
    expect(tab.lines).toEqual([0]);
    await turned(tab, 'visible');
    expect(FakeDesktop.shown).toEqual([]);
    expect(said()).toEqual(['While you were away: train-digits-1 completed after 1 min 40 s']);
  });

  it('is told on the desktop although it was seen to run for less than the watch takes', async () => {
    const tab = await openPage();
    await turned(tab, 'hidden');
    tab.server.happen({ job: job(1) });
    tab.hint(job(1));
    await jest.advanceTimersByTimeAsync(200);
    tab.server.happen({ job: completed(1) });
    tab.hint(completed(1));
    await settled();
    expect(FakeDesktop.made).toBe(1);
  });

  it('is told when somebody comes back where the desktop is not asked', async () => {
    const tab = await openPage({ permission: 'denied' });
    await turned(tab, 'hidden');
    tab.server.happen({ job: job(1) });
    tab.server.happen({ job: completed(1) });
    tab.hint(completed(1));
    await settled();
    expect([FakeDesktop.made, tab.lines]).toEqual([0, []]);
    await turned(tab, 'visible');
    expect(said()).toEqual(['While you were away: train-digits-1 completed after 1 min 40 s']);
  });

  it.each([
    ['one after the other', 600],
    ['at the same moment', 0]
  ])('is told by one of two hidden pages that get its event %s', async (_, apart) => {
    const shared = { memory: new FakeStorage(), locks: new FakeLocks() };
    const pages = [await openPage(shared), await openPage(shared)];
    for (const tab of pages) {
      await turned(tab, 'hidden');
    }
    for (const tab of pages) {
      tab.server.happen({ job: job(1) });
      tab.server.happen({ job: completed(1) });
      tab.hint(completed(1));
      if (apart > 0) {
        await jest.advanceTimersByTimeAsync(apart);
      }
    }
    await jest.advanceTimersByTimeAsync(3000);
    expect(FakeDesktop.made).toBe(1);
  });

  it('is told by a page that has to list everything anew', async () => {
    const tab = await openPage();
    await turned(tab, 'hidden');
    tab.server.seq = 7;
    tab.server.jobList = [completed(1)];
    tab.emitEvent(7, 'reset');
    await settled();
    expect(titles()).toEqual(['train-digits-1 completed after 1 min 40 s']);
  });

  it('is told by a page that saw no controller before', async () => {
    const tab = await openPage();
    tab.server.running = false;
    await tab.model.refresh();
    expect(tab.model.state.connectionStatus).toBe('asleep');
    tab.server.running = true;
    tab.server.jobList = [completed(1, { ended_at: 1111 }), completed(2)];
    tab.hint(completed(1));
    await settled();
    // The other one was over long before.
    expect(said()).toEqual(['train-digits-1 completed after 1 min 50 s']);
  });
});
