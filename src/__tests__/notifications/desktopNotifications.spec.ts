import { Dialog, Notification } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../../commands/commandIds';
import { DesktopNotifications } from '../../notifications/desktopNotifications';
import { HiddenTabSocket } from '../../notifications/hiddenTabSocket';
import { PermissionPrompt } from '../../notifications/permissionPrompt';
import type { IStorage } from '../../notifications/storage';
import { completed, job, pool } from '../fixtures/examples';
import { FakeDesktop, FakeLocks, FakeStorage, storageOver } from '../fixtures/fakeBrowser';
import { waitForRender } from '../fixtures/fakeModel';
import type { ITab, ITabOptions } from '../fixtures/notificationTab';
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

async function hiddenTab(options: Partial<ITabOptions> = {}): Promise<ITab> {
  const tab = await openTab({ trans, ...options });
  await tab.hide();
  return tab;
}

async function settled(): Promise<void> {
  await jest.advanceTimersByTimeAsync(0);
}

const titles = (): string[] => FakeDesktop.shown.map(one => one.title);

describe('a hidden tab', () => {
  it('reports on the desktop that a job ended; a click shows the tab and opens the job', async () => {
    const tab = await hiddenTab();
    tab.model.end(completed(1, { message: 'password=hunter2' }));
    await settled();
    expect(titles()).toEqual(['train-digits-1 completed after 1 min 40 s']);
    expect(JSON.stringify(FakeDesktop.shown)).not.toContain('hunter');
    expect(Notification.manager.count).toBe(0);
    FakeDesktop.shown[0].onclick?.();
    await settled();
    expect(tab.executed).toEqual([[CommandIDs.openJob, 'job-1']]);
    expect(FakeDesktop.shown).toEqual([]);
    // A user who opened the job needs no entry about it.
    expect(Notification.manager.count).toBe(0);
    tab.close();
  });

  it('reports many in one, which opens the panel', async () => {
    const tab = await hiddenTab();
    for (let number = 1; number <= 9; number++) {
      tab.model.end(completed(number));
    }
    await settled();
    expect(FakeDesktop.made).toBe(1);
    await jest.advanceTimersByTimeAsync(5000);
    expect(titles()).toEqual(['9 jobs ended: 9 finished']);
    expect(FakeDesktop.made).toBe(2);
    FakeDesktop.shown[0].onclick?.();
    expect(tab.executed).toEqual([[CommandIDs.openPanel, undefined]]);
    tab.close();
  });

  it('closes it when the tab is shown again', async () => {
    const tab = await hiddenTab();
    tab.model.end(completed(1));
    await settled();
    await tab.show();
    expect(FakeDesktop.shown).toEqual([]);
    expect(Notification.manager.notifications[0].message).toContain('While you were away');
    tab.close();
  });

  it.each<[string, Partial<ITabOptions>]>([
    ['nobody allowed it', { permission: 'default' }],
    ['it was refused', { permission: 'denied' }],
    ['it is switched off', { off: ['desktop'] }],
    ['such jobs are switched off', { off: ['jobCompleted'] }],
    ['Lab is not to disturb', { isQuiet: true }]
  ])('says nothing where %s', async (_, options) => {
    const tab = await hiddenTab(options);
    tab.model.end(completed(1));
    await settled();
    expect(FakeDesktop.made).toBe(0);
    tab.close();
  });

  it('asks there about a pool, and a click opens the panel', async () => {
    const tab = await hiddenTab({ pools: [pool(1, { idle_since: 1000, expires_at: 1600 })] });
    await jest.advanceTimersByTimeAsync(360_000);
    expect(titles()).toEqual(['Extend the warm pool?']);
    expect(FakeDesktop.shown[0].body).toContain('expires in 2 min');
    FakeDesktop.shown[0].onclick?.();
    await settled();
    expect(tab.executed).toEqual([[CommandIDs.openPanel, undefined]]);
    // The question itself is on the page now.
    expect(Notification.manager.notifications.map(one => one.message)).toEqual([
      expect.stringContaining('Pool local × 1 expires in')
    ]);
    tab.close();
  });
});

describe('tabs of one browser', () => {
  async function two(first: Partial<ITabOptions> = {}): Promise<[ITab, ITab]> {
    const shared = { trans, memory: new FakeStorage(), locks: new FakeLocks(), ...first };
    return [await openTab(shared), await openTab(shared)];
  }

  it('report it once, whichever gets the event first, and the next one does when the first is closed', async () => {
    const [one, other] = await two();
    await one.hide();
    await other.hide();
    other.model.end(completed(1));
    one.model.end(completed(1));
    await settled();
    expect(FakeDesktop.made).toBe(1);
    expect([one.lines, other.lines]).toEqual([[1], []]);
    one.close();
    await jest.advanceTimersByTimeAsync(6000);
    expect(other.lines).toEqual([1]);
    other.model.end(completed(2));
    await settled();
    expect(titles()).toHaveLength(1);
    expect(FakeDesktop.made).toBe(2);
    other.close();
  });

  it('report it once if the first one has left the watch before the other one gets the event', async () => {
    const [one, other] = await two({ jobs: [job(1)] });
    await one.hide();
    await other.hide();
    one.model.end(completed(1));
    await jest.advanceTimersByTimeAsync(6000);
    expect(one.lines).toEqual([0]);
    other.model.end(completed(1));
    await jest.advanceTimersByTimeAsync(6000);
    expect(FakeDesktop.made).toBe(1);
    one.close();
    other.close();
  });

  it('show nothing on the desktop while one of them is visible', async () => {
    const [one, other] = await two();
    await one.hide();
    one.model.end(completed(1));
    await settled();
    expect(FakeDesktop.made).toBe(0);
    await other.hide();
    one.model.end(completed(2));
    await settled();
    expect(FakeDesktop.made).toBe(1);
    one.close();
    other.close();
  });

  it('close it on the desktop when it was seen in another tab', async () => {
    const [one, other] = await two();
    await one.hide();
    await other.hide();
    one.model.end(completed(1));
    other.model.end(completed(1));
    await settled();
    await other.show();
    one.notifier.onOtherTab();
    expect(FakeDesktop.shown).toEqual([]);
    one.close();
    other.close();
  });
});

describe('the watch of a hidden tab', () => {
  it('is kept only while something can happen', async () => {
    const tab = await openTab({ trans });
    expect(tab.lines).toEqual([]);
    await tab.hide();
    expect(tab.lines).toEqual([1]);
    tab.model.end(completed(50));
    await jest.advanceTimersByTimeAsync(1100);
    expect(tab.lines).toEqual([0]);
    await tab.show();
    tab.model.become({ ...tab.model.state, jobs: new Map([['job-51', job(51)]]) });
    await jest.advanceTimersByTimeAsync(1100);
    expect(tab.lines).toEqual([0]);
    tab.close();
  });
});

/** Sockets that a test opens and closes. */
class Socket {
  static made: Socket[] = [];
  onopen: () => void = () => undefined;
  onclose: () => void = () => undefined;
  onmessage: (message: { data: string }) => void = () => undefined;
  constructor(readonly url: string) {
    Socket.made.push(this);
  }
  close = jest.fn();
}

describe('the line to the event bus', () => {
  it('is opened again, later and later, and reads what was missed each time it opens', () => {
    const settings = ServerConnection.makeSettings({
      wsUrl: 'ws://127.0.0.1/user/x/',
      token: 'a b',
      appendToken: true,
      WebSocket: Socket as unknown as typeof WebSocket
    });
    const [onOpen, onEvent] = [jest.fn(), jest.fn()];
    const line = new HiddenTabSocket({ settings, onOpen, onEvent });
    expect(Socket.made[0].url).toBe('ws://127.0.0.1/user/x/api/events/subscribe?token=a%20b');
    Socket.made[0].onopen();
    Socket.made[0].onmessage({ data: '{"schema_id":"s","seq":1}' });
    expect(onEvent).toHaveBeenCalledWith({ schema_id: 's', seq: 1 });
    Socket.made[0].onclose();
    jest.advanceTimersByTime(1000);
    Socket.made[1].onclose();
    jest.advanceTimersByTime(1999);
    expect(Socket.made).toHaveLength(2);
    jest.advanceTimersByTime(1);
    Socket.made[2].onopen();
    expect(onOpen).toHaveBeenCalledTimes(2);
    line.dispose();
    Socket.made[2].onclose();
    jest.advanceTimersByTime(60_000);
    expect(Socket.made).toHaveLength(3);
    expect(Socket.made[2].close).toHaveBeenCalled();
  });
});

describe('the permission', () => {
  beforeEach(() => {
    jest.useRealTimers();
  });

  function consent(options: { memory?: IStorage; isSecureContext?: boolean } = {}): {
    consent: PermissionPrompt;
    switchOn: jest.Mock;
  } {
    const switchOn = jest.fn(() => Promise.resolve());
    const desktop = new DesktopNotifications({
      Notification: FakeDesktop as unknown as typeof globalThis.Notification,
      isSecureContext: options.isSecureContext ?? true,
      focus: () => undefined
    });
    const storage = options.memory ?? new FakeStorage();
    return {
      consent: new PermissionPrompt({ desktop, storage, key: 'k', trans, switchOn }),
      switchOn
    };
  }

  async function answer(label: string): Promise<string> {
    await waitForRender();
    const text = document.querySelector('.jp-Dialog')?.textContent ?? '';
    const buttons = [...document.querySelectorAll<HTMLButtonElement>('.jp-Dialog button')];
    buttons.find(one => one.textContent === label)?.click();
    await waitForRender();
    return text;
  }

  afterEach(() => Dialog.flush());

  it('is offered once in a browser, and only if it was not decided yet', () => {
    FakeDesktop.clear('default');
    const memory = new FakeStorage();
    expect(consent({ memory }).consent.offer()?.label).toBe('Notify on desktop');
    expect(consent({ memory }).consent.offer()).toBeNull();
    FakeDesktop.clear('granted');
    expect(consent().consent.offer()).toBeNull();
    FakeDesktop.clear('default');
    expect(consent({ isSecureContext: false }).consent.offer()).toBeNull();
  });

  it('is offered once in a page whose browser cannot store that', () => {
    FakeDesktop.clear('default');
    const storage = new FakeStorage();
    storage.isFull = true;
    const memory = storageOver(storage);
    expect(consent({ memory }).consent.offer()?.label).toBe('Notify on desktop');
    expect(consent({ memory }).consent.offer()).toBeNull();
  });

  it('is requested after the reason was shown', async () => {
    FakeDesktop.clear('default');
    FakeDesktop.answer = 'granted';
    const { consent: asked, switchOn } = consent();
    const done = asked.ask();
    const reason = await answer('Enable');
    await done;
    expect(reason).toContain('While this tab is hidden, a notification appears when a job ends');
    expect(FakeDesktop.permission).toBe('granted');
    expect(switchOn).toHaveBeenCalledTimes(1);
  });

  it('is not requested if the user declines', async () => {
    FakeDesktop.clear('default');
    const { consent: asked, switchOn } = consent();
    const done = asked.ask();
    await answer('Not Now');
    await done;
    expect(FakeDesktop.permission).toBe('default');
    expect(switchOn).not.toHaveBeenCalled();
  });

  it('can be restored after a refusal, and the message says how', async () => {
    FakeDesktop.clear('default');
    FakeDesktop.answer = 'denied';
    const done = consent().consent.ask();
    await answer('Enable');
    expect(await answer('OK')).toContain('set Notifications to Allow');
    await done;
  });

  it('is explained if the browser does not offer it', async () => {
    const done = consent({ isSecureContext: false }).consent.ask();
    expect(await answer('OK')).toContain('HTTPS');
    await done;
  });
});
