// The log of a job as a widget: it is read only while it is visible.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { IPageVisibility } from '../api/pageVisibility';
import { FailureNotice } from '../components/failureNotice';
import type { IFailureText } from '../format/failureText';
import { VisibleWidget } from '../widgets/visibleWidget';
import type { ILogActions } from './actions';
import { LOG_CLASS, registerActions } from './actions';
import type { ISearchTerm } from './ansi';
import { LogErrorNotice, LogFooter } from './footer';
import type { ILogSource } from './logSource';
import { LogToolbar } from './logToolbar';
import type { ILogDisplayOptions } from './options';
import { LogReader } from './reader';
import { RowList } from './rowList';
import { LogSearch } from './search';

/** Milliseconds after the last key until the search begins. */
const TYPED = 250;

/** Where a log reads why its job failed. */
export interface ILogFailure {
  read: () => IFailureText | null;
  /** Emitted when the failure may have changed. */
  changed: ISignal<unknown, unknown>;
}

export interface ILogOptions extends ILogDisplayOptions {
  /** Where the log is read: `logOf(api, job.id)`. */
  source: ILogSource;
  /** The job's name: for screen readers, and for the name of a downloaded file. */
  name: string;
  page: IPageVisibility;
  trans: TranslationBundle;
  /** Absent if the view has no record of the job. */
  failure?: ILogFailure;
}

/**
 * The log of one job, with all its controls: `new LogView({ source: logOf(api, job.id), name: job.name,
 * page: document, trans })`.
 *
 * It fills the space that it is given, and sends requests only while it is visible in a visible tab.
 */
export class LogView extends VisibleWidget {
  constructor(private readonly options: ILogOptions) {
    super(options.page);
    this._reader = new LogReader(options.source);
    this._search = new LogSearch(options.source);
    this._isWrapped = options.isWrapped ?? true;
    this.addClass(LOG_CLASS);
    registerActions(this.node, this._actions);
    this._reader.changed.connect(this._onRead, this);
    this._search.changed.connect(this._onFound, this);
    options.failure?.changed.connect(this._onJob, this);
    this._failure = options.failure?.read() ?? null;
  }

  dispose(): void {
    clearTimeout(this._typing);
    this._reader.dispose();
    this._search.dispose();
    super.dispose();
  }

  protected onVisible(): void {
    this._isSeen = true;
    this._reader.start();
    this._search.resume(this._reader.total);
    this.update();
  }

  protected onHidden(): void {
    this._isSeen = false;
    this._reader.pause();
    this._search.pause();
  }

  protected onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    this._lines.current?.focus();
  }

  protected render(): JSX.Element {
    const { name, trans, startController } = this.options;
    return (
      <>
        <LogToolbar
          reader={this._reader}
          search={this._search}
          words={this._words}
          isWrapped={this._isWrapped}
          field={this._field}
          trans={trans}
          actions={this._actions}
          onWords={words => this._type(words)}
          onLeave={() => this._leave()}
        />
        <LogErrorNotice
          reader={this._reader}
          trans={trans}
          onAgain={() => this._reader.start()}
          onWake={
            startController && (() => void startController().then(() => this._reader.start()))
          }
        />
        <RowList
          reader={this._reader}
          words={this._search.words}
          place={this._search.place}
          isWrapped={this._isWrapped}
          label={trans.__('Log of %1', name)}
          scroller={this._lines}
          trans={trans}
          onSeen={end => (this._seen = end)}
        />
        {this._failure && this._reader.isEnded ? (
          <FailureNotice failure={this._failure} hasTitle={true} trans={trans} />
        ) : null}
        <LogFooter reader={this._reader} trans={trans} />
      </>
    );
  }

  private _onJob(): void {
    const failure = this.options.failure?.read() ?? null;
    // Many jobs change while a log is open, and this one fails once.
    if (JSON.stringify(failure) !== JSON.stringify(this._failure)) {
      this._failure = failure;
      this.update();
    }
  }

  private _onRead(): void {
    const { latest, problem, total } = this._reader;
    const key = latest ? `${latest.host} ${latest.attempt}` : '';
    if (!latest) {
      // Another log was chosen: positions in the one before are those of other lines.
      this._search.pause();
    } else if (this._key !== key) {
      this._key = key;
      this._find();
    } else if (this._isSeen && !problem) {
      this._search.resume(total);
    }
    this.update();
  }

  private _onFound(): void {
    const { place, isDone } = this._search;
    if (place !== null && this._isAsked) {
      this._reader.toPlace(place);
    }
    // Scroll to the first match only: lines that arrive later or are drawn again must not move the view.
    this._isAsked &&= place === null && !isDone;
    this.update();
  }

  private _type(words: ISearchTerm): void {
    this._words = words;
    clearTimeout(this._typing);
    this._typing = setTimeout(() => this._find(), TYPED);
    this.update();
  }

  /** Search for the text in the field. */
  private _find(): void {
    clearTimeout(this._typing);
    const { latest, which } = this._reader;
    if (latest) {
      // Search the run that is shown, even if another one begins in the meantime.
      this._isAsked = true;
      this._search.find(this._words, { host: which.host, attempt: latest.attempt }, this._seen);
    }
  }

  /** Return true if the search is for the text in the field. */
  private _isCurrent(): boolean {
    const { words } = this._search;
    const { text, matchCase } = this._words;
    return (words?.text ?? '') === text && (!words || words.matchCase === matchCase);
  }

  private _step(step: () => void): void {
    if (this._isCurrent()) {
      // Scroll even to the only match, since the user may have scrolled away from it.
      this._isAsked = this._search.count > 0 || !this._search.isDone;
      // After a failure nothing else resumes the search if the log grows no more.
      this._search.resume();
      step();
    } else {
      this._find();
    }
  }

  private _leave(): void {
    this._type({ ...this._words, text: '' });
    this._find();
    this._lines.current?.focus();
  }

  private _download(): void {
    const { source, name } = this.options;
    const { latest, which } = this._reader;
    const host = latest?.host ?? which.host;
    const link = document.createElement('a');
    link.href = source.address({ ...which, host }, `${name}-${host}.log`);
    link.download = '';
    link.click();
  }

  private readonly _actions: ILogActions = {
    find: () => {
      this._field.current?.focus();
      this._field.current?.select();
    },
    findNext: () => this._step(() => this._search.next()),
    findPrevious: () => this._step(() => this._search.previous()),
    toBegin: () => this._reader.toPlace(0),
    toEnd: () => this._reader.toEnd(),
    toggleFollow: () => {
      if (this._reader.isFollowing) {
        this._reader.follow(false);
      } else {
        this._reader.toEnd();
      }
    },
    toggleWrap: () => {
      this._isWrapped = !this._isWrapped;
      this.update();
    },
    download: () => this._download()
  };
  private readonly _reader: LogReader;
  private readonly _search: LogSearch;
  private readonly _field = React.createRef<HTMLInputElement>();
  private readonly _lines = React.createRef<HTMLDivElement>();
  private _words: ISearchTerm = { text: '', matchCase: false };
  private _isWrapped: boolean;
  private _failure: IFailureText | null;
  private _isSeen = false;
  private _seen = 0;
  private _key = '';
  /** Whether to scroll to a match when there is one. */
  private _isAsked = false;
  private _typing: ReturnType<typeof setTimeout> | undefined;
}
