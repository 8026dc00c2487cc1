// The part of the panel above its sections.

import React from 'react';

import { CommandIDs } from '../commands/commandIds';
import { commandRunner } from '../commands/commandRunner';
import { ConnectionNotice } from '../components/connectionNotice';
import { formatCounts } from '../format/jobText';
import { hasNoJobs } from '../state/connectionState';
import { OtherRecordsNotice } from './otherRecordsNotice';
import { PanelToolbar } from './panelToolbar';
import { RecordsNotice } from './recordsNotice';
import type { ISectionOptions } from './sectionView';
import { SectionView } from './sectionView';
import { Welcome } from './welcome';

/** Lab's own command, there unless an administrator took the editor away. */
const SETTINGS = 'settingeditor:open';

/** Part of the titles of our settings, which the editor looks at; `schema/` has the titles. */
const SETTINGS_QUERY = 'Jobs and Pools';

/** What is above the sections: the toolbar, what is wrong, and the counts. */
export class HeaderView extends SectionView {
  constructor(options: ISectionOptions) {
    super(options, '');
    this._loginUrl = options.loginUrl;
    this._insertCell = options.insertCell;
  }

  protected isTicking(): boolean {
    return false;
  }

  protected draw(): JSX.Element {
    const { state } = this.model;
    const isReady = state.connectionStatus === 'ready';
    const refresh = commandRunner(this.commands, CommandIDs.refresh);
    const settings = commandRunner(this.commands, SETTINGS);
    return (
      <>
        <PanelToolbar
          text={this.filter.text}
          trans={this.trans}
          onFilter={text => (this.filter.text = text)}
          onRefresh={refresh}
          onSettings={settings && (() => settings({ query: SETTINGS_QUERY }))}
        />
        {hasNoJobs(state) ? (
          <Welcome trans={this.trans} isFirst={isReady} onInsert={this._insertCell} />
        ) : null}
        <ConnectionNotice
          state={state}
          now={this.model.now()}
          trans={this.trans}
          loginUrl={this._loginUrl}
          onRefresh={refresh}
          onWake={commandRunner(this.commands, CommandIDs.wake)}
        />
        <RecordsNotice note={state.recordsNote} trans={this.trans} />
        <OtherRecordsNotice state={state} trans={this.trans} />
        <p className="jp-smx-counts" role="status" aria-live="polite">
          {isReady ? formatCounts(state, this.model.now(), this.trans) : ''}
        </p>
      </>
    );
  }

  private readonly _loginUrl: string | undefined;
  private readonly _insertCell: ((source: string) => void) | undefined;
}
