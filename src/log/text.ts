// The bytes of a log as text: characters that were cut in two, bars that overwrite their line, colours left out.

/** Characters that are kept; a page with more is slow, and the whole log is on the disk. */
export const LONGEST = 1_000_000;

// eslint-disable-next-line no-control-regex -- what a terminal takes as an order begins with one
const ORDERS = /\u001b\[[0-9;?]*[A-Za-z]/g;

export class LogText {
  get text(): string {
    return this._done + lastState(this._line);
  }

  add(bytes: Uint8Array): void {
    const fresh = this._line + this._decoder.decode(bytes, { stream: true });
    const end = fresh.lastIndexOf('\n') + 1;
    const lines = fresh.slice(0, end).split('\n').map(lastState).join('\n');
    this._done = (this._done + lines).slice(-LONGEST);
    this._line = fresh.slice(end);
  }

  /** Put a line of our own behind what is there. */
  say(line: string): void {
    this._done = `${this.text.replace(/\n?$/, '\n')}${line}\n`;
    this._line = '';
  }

  private readonly _decoder = new TextDecoder();
  private _done = '';
  private _line = '';
}

/** What a terminal would show of a line in the end: a carriage return begins it anew. */
function lastState(line: string): string {
  const plain = line.replace(ORDERS, '').replace(/\r+$/, '');
  return plain.slice(plain.lastIndexOf('\r') + 1);
}
