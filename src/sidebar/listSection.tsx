// A section of the panel with a list, whose code is loaded when the section is shown.

import type { Message } from '@lumino/messaging';
import React from 'react';

import { LoadNotice } from '../components/loadNotice';
import type { LazyCode } from '../widgets/lazyCode';
import type * as Lists from './lists';
import type { ISectionOptions } from './sectionView';
import { SectionView } from './sectionView';

/** What draws lists of jobs and of pools. */
export type ListComponents = typeof Lists;

export interface IListSectionOptions extends ISectionOptions {
  lists: LazyCode<ListComponents>;
}

export abstract class ListSection extends SectionView {
  constructor(options: IListSectionOptions, title: string) {
    super(options, title);
    this._lists = options.lists;
  }

  /** Load the code of the list, and draw the list with it. */
  async load(): Promise<void> {
    this._isFailed = false;
    await this._lists.request().catch(() => (this._isFailed = true));
    if (!this.isDisposed) {
      this.update();
    }
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._loadIfVisible();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._loadIfVisible();
  }

  protected draw(): JSX.Element {
    const { code } = this._lists;
    if (code !== null) {
      return this.isKnown() ? this.drawList(code) : <></>;
    }
    return this._isFailed ? (
      <LoadNotice
        failure={this.trans.__('Cannot load the list.')}
        trans={this.trans}
        onRetry={() => void this.load()}
      />
    ) : (
      <></>
    );
  }

  /** What stands in the section when the server has answered. */
  protected abstract drawList(lists: ListComponents): JSX.Element;

  private _loadIfVisible(): void {
    if (this.isVisible && this._lists.code === null) {
      void this.load();
    }
  }

  private readonly _lists: LazyCode<ListComponents>;
  private _isFailed = false;
}
