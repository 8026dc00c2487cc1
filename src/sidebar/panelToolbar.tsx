// The first line of the panel: filter, refresh, settings.

import type { TranslationBundle } from '@jupyterlab/translation';
import { refreshIcon, settingsIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { IconButton } from '../components/jobButtons';

export interface IPanelToolbarProps {
  text: string;
  trans: TranslationBundle;
  onFilter: (text: string) => void;
  /** Absent where the command was switched off. */
  onRefresh?: () => void;
  /** Absent where there is no page of settings. */
  onSettings?: () => void;
}

export function PanelToolbar({ text, trans, ...acts }: IPanelToolbarProps): JSX.Element {
  return (
    <div className="jp-smx-tools">
      <input
        type="search"
        className="jp-smx-filter"
        aria-label={trans.__('Filter jobs and pools')}
        placeholder={trans.__('Filter…')}
        defaultValue={text}
        onChange={event => acts.onFilter(event.target.value)}
      />
      {acts.onRefresh ? (
        <IconButton
          label={trans.__('Refresh jobs and pools')}
          icon={refreshIcon}
          onClick={() => acts.onRefresh?.()}
        />
      ) : null}
      {acts.onSettings ? (
        <IconButton
          label={trans.__('Settings for jobs and pools')}
          icon={settingsIcon}
          onClick={acts.onSettings}
        />
      ) : null}
    </div>
  );
}
