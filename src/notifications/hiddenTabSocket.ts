// A connection to Jupyter's event bus of a hidden tab's own.

import { URLExt } from '@jupyterlab/coreutils';
import type { Event, ServerConnection } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';

/** Milliseconds until a lost connection is tried again: each time twice as long, up to half a minute. */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

export interface IHiddenTabSocketOptions {
  settings: ServerConnection.ISettings;
  /** The connection is open; events from before it are lost. */
  onOpen: () => void;
  onEvent: (event: Event.Emission) => void;
}

/**
 * JupyterLab does not reconnect its own connection to the bus while its tab is hidden: its poll stands by until the
 * tab is visible. This one reconnects.
 */
export class HiddenTabSocket implements IDisposable {
  constructor(private readonly options: IHiddenTabSocketOptions) {
    this._open();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._retry);
    this._socket?.close();
    this._socket = null;
  }

  private _open(): void {
    const { settings, onOpen } = this.options;
    const socket = new settings.WebSocket(addressOf(settings));
    this._socket = socket;
    socket.onopen = () => {
      this._pause = FIRST_PAUSE;
      if (!this._isDisposed) {
        onOpen();
      }
    };
    socket.onmessage = message => this._receive(message.data);
    socket.onclose = () => {
      if (!this._isDisposed) {
        this._retry = setTimeout(() => this._open(), this._pause);
        this._pause = Math.min(2 * this._pause, LONGEST_PAUSE);
      }
    };
  }

  private _receive(data: unknown): void {
    if (this._isDisposed || typeof data !== 'string') {
      return;
    }
    this.options.onEvent(JSON.parse(data) as Event.Emission);
  }

  private _socket: WebSocket | null = null;
  private _pause = FIRST_PAUSE;
  private _retry: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

function addressOf({ wsUrl, token, appendToken }: ServerConnection.ISettings): string {
  const address = URLExt.join(wsUrl, 'api/events/subscribe');
  return appendToken && token !== '' ? `${address}?token=${encodeURIComponent(token)}` : address;
}
