import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ILauncher } from '@jupyterlab/launcher';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ServerConnection } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { PromiseDelegate } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../../commands/commandIds';
import { createCardFactory } from '../../notebook/cards';
import { cardPlugin } from '../../plugins/card';
import { launcherPlugin } from '../../plugins/launcher';
import { modelPlugin } from '../../plugins/model';
import { sidebarPlugin } from '../../plugins/sidebar';
import { isReachable } from '../../state/connectionState';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { job } from '../fixtures/examples';
import { FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

jest.mock('../../notebook/cards', () => ({ createCardFactory: jest.fn() }));

const ANSWERS: Record<string, unknown> = {
  controller: { running: true, version: '1', seq: 1 },
  jobs: { jobs: [job(0)] },
  pools: { pools: [] }
};

// Plugins load code on demand, and here that is compiled first.
jest.setTimeout(120_000);

beforeAll(layOut);

describe('while Lab starts', () => {
  let asked: string[];
  let failure: Error | null;
  let restored: PromiseDelegate<void>;
  let app: JupyterFrontEnd;
  let shown: Widget[];

  const answer = (request: Request): Promise<Response> => {
    const name = new URL(request.url).pathname.split('/').pop() ?? '';
    asked.push(name);
    return failure
      ? Promise.reject(failure)
      : Promise.resolve(new Response(JSON.stringify(ANSWERS[name])));
  };

  beforeEach(() => {
    asked = [];
    failure = null;
    shown = [];
    restored = new PromiseDelegate();
    const serverSettings = ServerConnection.makeSettings({
      baseUrl: 'http://localhost/',
      fetch: answer as typeof fetch
    });
    const shell = { add: (widget: Widget) => shown.push(widget) };
    app = {
      commands: new CommandRegistry(),
      serviceManager: {
        serverSettings,
        events: { stream: new Signal<object, never>({}) },
        connectionFailure: new Signal<object, never>({})
      },
      shell,
      restored: restored.promise,
      started: Promise.resolve()
    } as unknown as JupyterFrontEnd;
  });

  it('jobs are listed before the page is restored, once, and cards of them need no other request', async () => {
    const model = await modelPlugin.activate(app);
    model.expectJob(job(0).id, '');
    await waitForRender();
    expect(model.state.jobs.has(job(0).id)).toBe(true);
    restored.resolve();
    await waitForRender();
    expect(asked).toEqual(['controller', 'jobs', 'pools']);
  });

  it('a connection that JupyterLab finds lost is checked at once, although no poll is due', async () => {
    const model = await modelPlugin.activate(app);
    await waitForRender();
    expect(isReachable(model.state)).toBe(true);
    const { connectionFailure } = app.serviceManager;
    failure = new TypeError('Failed to fetch');
    (connectionFailure as Signal<unknown, Error>).emit(failure);
    await waitForRender();
    expect(isReachable(model.state)).toBe(false);
  });

  it('the card of the launcher has a section of its own, named as in the palette', async () => {
    const add = jest.fn<IDisposable, [ILauncher.IItemOptions]>();
    app.commands.addCommand(CommandIDs.openPanel, {
      describedBy: { args: { type: 'object' } },
      execute: () => undefined
    });
    await launcherPlugin.activate(app, { add }, null);
    await app.started;
    const [[{ command, category }]] = add.mock.calls;
    expect([command, category]).toEqual([CommandIDs.openPanel, 'Jobs and Pools']);
  });

  it('the code of cards is loaded with the first notebook', async () => {
    const widgetAdded = new Signal<object, unknown>({});
    const notebooks = { forEach: () => undefined, widgetAdded } as unknown as INotebookTracker;
    const rendermime = { addFactory: jest.fn() } as unknown as IRenderMimeRegistry;
    await cardPlugin.activate(app, new FakeModel(), rendermime, null, notebooks);
    await waitForRender();
    expect(createCardFactory).not.toHaveBeenCalled();
    widgetAdded.emit({});
    widgetAdded.emit({});
    await waitForRender();
    expect(createCardFactory).toHaveBeenCalledTimes(1);
  });

  it('a hidden panel has no rows before the page is restored, and has them then', async () => {
    const model = new FakeModel();
    await sidebarPlugin.activate(app, model, null, null, null, null, null);
    const [panel] = shown;
    panel.hide();
    Widget.attach(panel, document.body);
    model.become(applyListing(EMPTY_STATE, [job(0)], [], 1).state);
    await waitForRender();
    expect(panel.node.querySelector('[data-job]')).toBeNull();
    restored.resolve();
    await waitForRender();
    expect(panel.node.querySelector('[data-job]')).not.toBeNull();
    panel.dispose();
  });
});
