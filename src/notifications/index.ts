// Notifications, put together for one page.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Event } from '@jupyterlab/services';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { readAfterEvent } from '../model/changeEvent';
import type { IJobsModel } from '../tokens';
import { DesktopNotifications } from './desktopNotifications';
import { HiddenTabSocket } from './hiddenTabSocket';
import { DO_NOT_DISTURB_PLUGIN, NotificationSettings } from './notificationSettings';
import { Notifier } from './notifier';
import { PermissionPrompt } from './permissionPrompt';
import { Presence } from './presence';
import { PromptStore } from './promptStore';
import { SeenStore } from './seenStore';
import { createStorage } from './storage';
import { TabLocks } from './tabLocks';

export interface INotifyOptions {
  app: JupyterFrontEnd;
  model: IJobsModel;
  trans: TranslationBundle;
  registry: ISettingRegistry | null;
  /** The plugin whose settings say what is wanted. */
  plugin: string;
}

/** What notifies, until it is disposed, and what asks for the desktop's permission. */
export interface INotifications {
  notifier: Notifier;
  permissionPrompt: PermissionPrompt;
}

/** Begin to notify. */
export async function startNotifier(options: INotifyOptions): Promise<INotifications> {
  const { app, model, trans, registry, plugin } = options;
  const load = (id: string): Promise<ISettingRegistry.ISettings | null> =>
    registry?.load(id).catch(() => null) ?? Promise.resolve(null);
  const settings = new NotificationSettings(await load(plugin), await load(DO_NOT_DISTURB_PLUGIN));
  const { serverSettings } = app.serviceManager;
  const storage = createStorage(window);
  // Servers of several users may have one origin.
  const key = `jupyter-smx:${new URL(serverSettings.baseUrl).pathname}`;
  const desktop = new DesktopNotifications(window);
  const presence = new Presence(document, window, () => Date.now());
  const permissionPrompt = new PermissionPrompt({
    desktop,
    storage,
    key: `${key}:offered`,
    trans,
    switchOn: () => settings.switchOn('desktop')
  });
  const notifier = new Notifier({
    model,
    commands: app.commands,
    trans,
    presence,
    tabLocks: new TabLocks(navigator.locks, key),
    desktop,
    seenStore: new SeenStore(storage, key),
    promptStore: new PromptStore(storage, `${key}:answers`),
    settings,
    offer: () => permissionPrompt.offer(),
    openSocket: () =>
      new HiddenTabSocket({
        settings: serverSettings,
        onOpen: () => void model.catchUp(),
        onEvent: event => onEvent(event, model)
      })
  });
  window.addEventListener('storage', event => {
    if (event.key?.startsWith(key)) {
      notifier.onOtherTab();
    }
  });
  return { notifier, permissionPrompt };
}

function onEvent(event: Event.Emission, model: IJobsModel): void {
  const read = readAfterEvent(event, model.state, true);
  if (read === 'list') {
    void model.refresh();
  } else if (read === 'changes') {
    void model.catchUp();
  }
}
