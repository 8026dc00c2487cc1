import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { IRunningSessionManagers } from '@jupyterlab/running';
import type { IRunningSessions } from '@jupyterlab/running';
import { ServerConnection } from '@jupyterlab/services';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { CommandRegistry } from '@lumino/commands';
import { PluginRegistry } from '@lumino/coreutils';
import type { Token } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import plugins from '../../index';
import { onSettingChange } from '../../plugins/settingListener';
import { completed, job, pool } from '../fixtures/examples';
import { layOut, waitForRender } from '../fixtures/fakeModel';

const ANSWERS: Record<string, unknown> = {
  controller: { running: true, version: '1', seq: 1 },
  jobs: { jobs: [completed(1), job(0)] },
  pools: { pools: [pool(1)] }
};

function answer(request: Request): Promise<Response> {
  const name = new URL(request.url).pathname.split('/').pop() ?? '';
  return Promise.resolve(new Response(JSON.stringify(ANSWERS[name])));
}

/** A front end that holds widgets and commands, and notes the commands that were asked for and are not there. */
class Page {
  constructor(withoutPlugin: string) {
    const execute = this.commands.execute.bind(this.commands);
    jest.spyOn(this.commands, 'execute').mockImplementation((id, args) => {
      if (!this.commands.hasCommand(id)) {
        this.missing.push(id);
      }
      return execute(id, args).catch(() => undefined);
    });
    const registry = new PluginRegistry<JupyterFrontEnd>();
    registry.application = this._application() as unknown as JupyterFrontEnd;
    for (const plugin of [...this._surroundings(), ...plugins]) {
      if (plugin.id !== withoutPlugin) {
        registry.registerPlugin(plugin);
      }
    }
    this.ready = registry.activatePlugins('startUp');
  }

  dispose(): void {
    this.widgets.forEach(widget => widget.dispose());
  }

  readonly commands = new CommandRegistry();
  readonly missing: string[] = [];
  readonly widgets: Widget[] = [];
  readonly managers: IRunningSessions.IManager[] = [];
  readonly ready: Promise<void>;

  private _application(): object {
    const serverSettings = ServerConnection.makeSettings({
      baseUrl: 'http://localhost/',
      fetch: answer as typeof fetch
    });
    return {
      commands: this.commands,
      serviceManager: {
        serverSettings,
        events: { stream: new Signal<object, never>({}) },
        connectionFailure: new Signal<object, never>({}),
        terminals: { isAvailable: () => false }
      },
      shell: { add: (widget: Widget) => this._show(widget), activateById: () => undefined },
      restored: Promise.resolve(),
      started: Promise.resolve()
    };
  }

  private _surroundings(): JupyterFrontEndPlugin<unknown>[] {
    const given = (provides: Token<unknown>, service: unknown): JupyterFrontEndPlugin<unknown> => ({
      id: provides.name,
      provides,
      description: provides.description,
      activate: () => service
    });
    return [
      given(ICommandPalette, { addItem: () => undefined }),
      given(ILauncher, { add: () => undefined }),
      given(ILayoutRestorer, { add: () => undefined, restore: () => Promise.resolve() }),
      given(IRenderMimeRegistry, { addFactory: () => undefined }),
      given(INotebookTracker, {
        forEach: () => undefined,
        widgetAdded: new Signal<object, never>({})
      }),
      given(IRunningSessionManagers, {
        add: (manager: IRunningSessions.IManager) => this.managers.push(manager)
      }),
      given(IStatusBar, {
        registerStatusItem: (_: string, { item }: { item: Widget }) => this._show(item)
      })
    ];
  }

  private _show(widget: Widget): void {
    this.widgets.push(widget);
    Widget.attach(widget, document.body);
  }
}

// Plugins load what they show when it is asked for, and here that is compiled first.
jest.setTimeout(120_000);

beforeAll(layOut);

describe('each plugin', () => {
  const names = plugins.map(plugin => plugin.id);

  it.each(['', ...names])('can be switched off alone: %s', async name => {
    const logged = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    const page = new Page(name);
    await page.ready;
    await waitForRender();
    const clickable = 'button, .jp-ToolbarButtonComponent';
    const buttons = [...document.body.querySelectorAll<HTMLElement>(clickable)];
    const isPanelThere = name !== 'jupyter-smx:model' && name !== 'jupyter-smx:sidebar';
    expect(document.querySelector('[data-job]') !== null).toBe(isPanelThere);
    buttons.forEach(one => one.click());
    for (const manager of page.managers) {
      for (const item of manager.running({ mode: 'list' })) {
        item.open?.();
        item.shutdown?.();
      }
    }
    await waitForRender();
    expect(page.missing).toEqual([]);
    // Nothing but that those which need the model do not start without it.
    expect(logged.mock.calls.length > 0).toBe(name === 'jupyter-smx:model');
    page.dispose();
    document.body.replaceChildren();
    logged.mockRestore();
  });
});

describe('a setting', () => {
  it('is applied again only when its own value changed', () => {
    const values: Record<string, unknown> = { rows: 200, sections: ['running'] };
    const settings = {
      changed: new Signal<object, void>({}),
      get: (name: string) => ({ composite: values[name] })
    };
    const applied: unknown[] = [];
    const given = settings as unknown as ISettingRegistry.ISettings;
    onSettingChange(given, 'sections', value => applied.push(value))();
    values.rows = 100;
    settings.changed.emit();
    values.sections = ['running'];
    settings.changed.emit();
    expect(applied).toEqual([['running']]);
    values.sections = [];
    settings.changed.emit();
    expect(applied).toEqual([['running'], []]);
  });
});
