// Which notifications are on: our settings, and "Do not disturb" of JupyterLab.

import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

export type NotificationKind =
  | 'jobCompleted'
  | 'jobFailed'
  | 'jobStopped'
  | 'whileAway'
  | 'poolEnding'
  | 'poolEnded'
  | 'desktop';

/** Where JupyterLab keeps "Do not disturb". */
export const DO_NOT_DISTURB_PLUGIN = '@jupyterlab/apputils-extension:notification';
const QUIET = 'doNotDisturbMode';

type ISettings = Pick<ISettingRegistry.ISettings, 'get' | 'set' | 'changed'>;

/**
 * Without settings everything is wanted; a Notebook or a Lab without notifications of its own is never quiet.
 */
export class NotificationSettings {
  constructor(
    private readonly own: ISettings | null,
    private readonly lab: ISettings | null
  ) {
    own?.changed.connect(() => this._changed.emit());
    lab?.changed.connect(() => this._changed.emit());
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  isOn(kind: NotificationKind): boolean {
    return this.own?.get(kind).composite !== false;
  }

  /** JupyterLab keeps toasts back itself; what is ours to keep back is the desktop. */
  get isDoNotDisturb(): boolean {
    return this.lab?.get(QUIET).composite === true;
  }

  async switchOn(kind: NotificationKind): Promise<void> {
    if (!this.isOn(kind)) {
      await this.own?.set(kind, true);
    }
  }

  private readonly _changed = new Signal<this, void>(this);
}
