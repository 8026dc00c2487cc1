// The item of the status bar: what runs, what is warm, what today cost; a press opens the panel.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import { CommandIDs } from '../commands/commandIds';
import { commandRunner } from '../commands/commandRunner';
import { formatCounts } from '../format/jobText';
import type { IJobsModel } from '../tokens';
import { LiveWidget } from './liveWidget';

export class StatusItem extends LiveWidget {
  constructor(
    model: IJobsModel,
    private readonly commands: CommandRegistry,
    private readonly trans: TranslationBundle
  ) {
    super(model);
    this.addClass('jp-smx-status');
  }

  protected isTicking(): boolean {
    return false;
  }

  protected render(): JSX.Element {
    const { state } = this.model;
    if (state.connectionStatus !== 'ready') {
      return <></>;
    }
    const words = formatCounts(state, this.model.now(), this.trans);
    const open = commandRunner(this.commands, CommandIDs.openPanel);
    return (
      <button
        type="button"
        className="jp-smx-status-button"
        aria-label={this.trans.__('Jobs and pools: %1', words)}
        title={this.trans.__('Show jobs and pools')}
        disabled={!open}
        onClick={() => open?.()}
      >
        {words}
      </button>
    );
  }
}
