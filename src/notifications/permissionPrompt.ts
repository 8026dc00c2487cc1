// Whether this browser may show notifications of the desktop: asked from a click, once, with the reason.

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { DesktopNotifications } from './desktopNotifications';
import type { IAction } from './jobToasts';
import type { IStorage } from './storage';

export interface IPermissionPromptOptions {
  desktop: DesktopNotifications;
  storage: IStorage;
  /** Under which name it is remembered that it was offered. */
  key: string;
  trans: TranslationBundle;
  /** Switch the setting on. */
  switchOn: () => Promise<void>;
}

export class PermissionPrompt {
  constructor(private readonly options: IPermissionPromptOptions) {}

  /** Give what the first toast about a job offers, and nothing after that. */
  offer(): IAction | null {
    const { desktop, storage, key, trans } = this.options;
    if (desktop.permission !== 'default' || storage.getItem(key) !== null) {
      return null;
    }
    storage.setItem(key, '1');
    return {
      label: trans.__('Notify on desktop'),
      caption: trans.__('Notify me on the desktop when a job ends while this tab is hidden'),
      callback: () => void this.ask()
    };
  }

  /** Ask, or say why that cannot be done; to be called from a click or a key. */
  async ask(): Promise<void> {
    const { desktop, storage, key, trans } = this.options;
    storage.setItem(key, '1');
    if (desktop.permission === 'default' && (await this._isWished())) {
      await desktop.ask();
      if (desktop.permission === 'default') {
        return;
      }
    }
    switch (desktop.permission) {
      case 'granted':
        await this.options.switchOn();
        Notification.success(
          trans.__('You will get a desktop notification when a job ends while this tab is hidden.'),
          { autoClose: 5000 }
        );
        break;
      case 'denied':
        await this._explain(this._wayBack());
        break;
      case 'unsupported':
        await this._explain(this._why());
        break;
      default:
        break;
    }
  }

  private async _isWished(): Promise<boolean> {
    const { trans } = this.options;
    const answer = await showDialog({
      title: trans.__('Enable desktop notifications?'),
      body: trans.__(
        'While this tab is hidden, a notification appears when a job ends or a warm pool is about to expire. It shows name, outcome and time, and none of your code. The browser asks for your permission next. You can also use the command "Enable Desktop Notifications for Jobs" later.'
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Not Now') }),
        Dialog.okButton({ label: trans.__('Enable') })
      ]
    });
    return answer.button.accept;
  }

  private async _explain(body: string): Promise<void> {
    const { trans } = this.options;
    const title = trans.__('Desktop notifications are not available');
    await showDialog({ title, body, buttons: [Dialog.okButton({ label: trans.__('OK') })] });
  }

  private _wayBack(): string {
    return this.options.trans.__(
      'Notifications are blocked. To allow them, open the site settings at the left end of the address bar, set Notifications to Allow, and run this command again.'
    );
  }

  private _why(): string {
    return this.options.trans.__(
      'Browsers allow notifications only for pages served over HTTPS or from localhost, and some browsers do not support them.'
    );
  }
}
