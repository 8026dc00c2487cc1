// Notifications of the desktop, as the browser gives them: whether they are allowed, showing, replacing and closing.

/** `unsupported`: this browser has none, or the page did not come over https or from this machine. */
export type Permission = NotificationPermission | 'unsupported';

/** What a notification says; another one with the same tag takes its place. */
export interface INotificationText {
  tag: string;
  title: string;
  body: string;
  onClick: () => void;
}

/** The part of `window` that is needed here. */
export interface IDesktopWindow {
  readonly Notification?: typeof Notification;
  readonly isSecureContext: boolean;
  focus(): void;
}

export class DesktopNotifications {
  constructor(private readonly window: IDesktopWindow) {}

  get permission(): Permission {
    const { Notification: Note, isSecureContext } = this.window;
    return Note && isSecureContext ? Note.permission : 'unsupported';
  }

  /** Let the browser ask. To be called from a click only, and browsers insist on that. */
  async ask(): Promise<Permission> {
    await this.window.Notification?.requestPermission();
    return this.permission;
  }

  show({ tag, title, body, onClick }: INotificationText): void {
    const { Notification: Note } = this.window;
    if (!Note || this.permission !== 'granted') {
      return;
    }
    // `renotify` stands in no type yet: without it what replaces another one is shown without a sound or a banner.
    const options: NotificationOptions & { renotify: boolean } = { tag, body, renotify: true };
    let note: Notification;
    try {
      note = new Note(title, options);
    } catch {
      // Android's browsers let service workers only make one, and say so here.
      return;
    }
    note.onclick = () => {
      this.window.focus();
      note.close();
      onClick();
    };
    // The browser took away what had this tag; closing that one by hand could close the new one.
    this._shown.set(tag, note);
  }

  /** Take away those of this tab: one of them, or all. */
  close(tag?: string): void {
    for (const [known, note] of [...this._shown]) {
      if (tag === undefined || tag === known) {
        note.close();
        this._shown.delete(known);
      }
    }
  }

  private readonly _shown = new Map<string, Notification>();
}
