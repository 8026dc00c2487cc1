// Notifications, put together for one page.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Event } from '@jupyterlab/services';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { isTurn } from '../model/eventHints';
import { CHANGE_SCHEMA } from '../model/jobsModel';
import type { IJobsModel } from '../tokens';
import { Desktop } from './desktopNotifications';
import { EventLine } from './eventSocket';
import { QUIET_PLUGIN, Wishes } from './notificationSettings';
import { Notifier } from './notifier';
import { Consent } from './permissionPrompt';
import { Presence } from './presence';
import { Answers } from './promptStore';
import { Told } from './seenStore';
import { memoryOf } from './storage';
import { Tabs } from './tabLocks';

export interface INotifyOptions {
  app: JupyterFrontEnd;
  model: IJobsModel;
  trans: TranslationBundle;
  registry: ISettingRegistry | null;
  /** The plugin whose settings say what is wanted. */
  plugin: string;
}

/** What notifies, until it is disposed, and what asks for the desktop's permission. */
export interface INotifying {
  notifier: Notifier;
  consent: Consent;
}

/** Begin to notify. */
export async function startNotifier(options: INotifyOptions): Promise<INotifying> {
  const { app, model, trans, registry, plugin } = options;
  const load = (id: string): Promise<ISettingRegistry.ISettings | null> =>
    registry?.load(id).catch(() => null) ?? Promise.resolve(null);
  const wishes = new Wishes(await load(plugin), await load(QUIET_PLUGIN));
  const { serverSettings } = app.serviceManager;
  const memory = memoryOf(window);
  // Servers of several users may have one origin.
  const key = `jupyter-smx:${new URL(serverSettings.baseUrl).pathname}`;
  const desktop = new Desktop(window);
  const presence = new Presence(document, window, () => Date.now());
  const consent = new Consent({
    desktop,
    memory,
    key: `${key}:offered`,
    trans,
    switchOn: () => wishes.switchOn('desktop')
  });
  const notifier = new Notifier({
    model,
    commands: app.commands,
    trans,
    presence,
    tabs: new Tabs(navigator.locks, key),
    desktop,
    told: new Told(memory, key),
    answers: new Answers(memory, `${key}:answers`),
    wishes,
    offer: () => consent.offer(),
    openLine: () =>
      new EventLine({
        settings: serverSettings,
        onOpen: () => void model.catchUp(),
        onEvent: event => hear(event, model)
      })
  });
  window.addEventListener('storage', event => {
    if (event.key?.startsWith(key)) {
      notifier.onOtherTab();
    }
  });
  return { notifier, consent };
}

/** Read the truth where a hint says that there is more of it. */
function hear(event: Event.Emission, model: IJobsModel): void {
  if (event.schema_id !== CHANGE_SCHEMA) {
    return;
  }
  if (event.kind === 'reset') {
    void model.refresh();
  } else if (Number(event.seq) > model.state.seq && isTurn(event, model.state)) {
    void model.catchUp();
  }
}
