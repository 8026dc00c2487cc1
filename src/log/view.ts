// The log of a job in the main area: it grows while it is seen, and nothing is asked while it is not.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { sentenceOf } from '../errors';
import type { ILogPart, ILogSource } from './source';
import { LogText } from './text';

/** Seconds that the server may hold a question while there is nothing new. */
const WAIT = 20;

/** Pixels from the end at which a reader still follows. */
const NEAR = 24;

/** Bytes of one answer. */
const PIECE = 262_144;

export interface ILogOptions {
  /** Where it is read: `logOf(api, job.id)`. */
  source: ILogSource;
  /** The job's, for those who hear and do not see. */
  name: string;
  page: Pick<Document, 'visibilityState' | 'addEventListener' | 'removeEventListener'>;
  trans: TranslationBundle;
}

/**
 * The log of one job, with everything that one does with it: `new LogView({ source: logOf(api, job.id), name: job.name,
 * page: document, trans })`.
 *
 * It fills the space that it is given, and asks the server while it is seen in a visible tab only.
 */
export class LogView extends Widget {
  constructor(private readonly options: ILogOptions) {
    super();
    const { name, page, trans } = options;
    this.addClass('jp-smx-log');
    this._text.tabIndex = 0;
    this._text.setAttribute('role', 'log');
    this._text.setAttribute('aria-label', trans.__('Log of %1', name));
    this._note.setAttribute('role', 'status');
    this.node.append(this._text, this._note);
    page.addEventListener('visibilitychange', this._onPage);
  }

  dispose(): void {
    this.options.page.removeEventListener('visibilitychange', this._onPage);
    this._pause();
    super.dispose();
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._onPage();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._onPage();
  }

  protected onBeforeHide(msg: Message): void {
    this._pause();
    super.onBeforeHide(msg);
  }

  protected onBeforeDetach(msg: Message): void {
    this._pause();
    super.onBeforeDetach(msg);
  }

  protected onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    this._text.focus();
  }

  private readonly _onPage = (): void => {
    if (this.isVisible && this.options.page.visibilityState === 'visible') {
      void this._follow();
    } else {
      this._pause();
    }
  };

  private _pause(): void {
    this._question?.abort();
    this._question = null;
  }

  private async _follow(): Promise<void> {
    if (this._question !== null || this._isWhole) {
      return;
    }
    const question = new AbortController();
    this._question = question;
    const { source, trans } = this.options;
    try {
      while (!question.signal.aborted && !this._isWhole) {
        const ask = { host: '', attempt: 0, offset: this._offset, limit: PIECE, wait: WAIT };
        const part = await source.read(ask, question.signal);
        if (!question.signal.aborted) {
          this._add(part);
        }
      }
    } catch (reason) {
      if (!question.signal.aborted) {
        this._note.textContent = trans.__('The log cannot be read on: %1', sentenceOf(reason));
      }
    }
    if (this._question === question) {
      this._question = null;
    }
  }

  private _add(part: ILogPart): void {
    const { trans } = this.options;
    const { scrollHeight, scrollTop, clientHeight } = this._text;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR;
    if (this._attempt !== null && part.attempt !== this._attempt) {
      // The job began again, and the log of a run begins with its own first byte.
      this._offset = 0;
      this._lines.say(trans.__('Run %1 of the job begins here.', part.attempt));
    } else {
      this._offset = part.next;
      // A run that failed by a lost host ends its own log only.
      this._isWhole = part.isFinal && part.attempt === part.attempts;
      this._lines.add(part.bytes);
    }
    this._attempt = part.attempt;
    this._text.textContent = this._lines.text;
    this._note.textContent = this._isWhole ? trans.__('The job has ended.') : '';
    if (isAtEnd) {
      this._text.scrollTop = this._text.scrollHeight;
    }
  }

  private readonly _text = document.createElement('pre');
  private readonly _note = document.createElement('p');
  private readonly _lines = new LogText();
  private _offset = 0;
  private _attempt: number | null = null;
  private _isWhole = false;
  private _question: AbortController | null = null;
}
