// What stands where code could not be loaded: the server was away, or has another version of us by now.

import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';

import { TextButton } from './textButton';

export interface ILoadNoticeProps {
  /** The sentence that says what could not be loaded. */
  failure: string;
  trans: TranslationBundle;
  onRetry: () => void;
}

export function LoadNotice({ failure, trans, onRetry }: ILoadNoticeProps): JSX.Element {
  const cure = trans.__(
    'Try again when the server is reachable. If that does not help, reload the page.'
  );
  return (
    <div className="jp-smx-notice" role="alert">
      <p>
        {failure} {cure}
      </p>
      <TextButton label={trans.__('Try again')} onClick={onRetry} />
    </div>
  );
}

/** The notice as a widget of its own. */
export function loadNoticeWidget(props: ILoadNoticeProps): ReactWidget {
  return ReactWidget.create(<LoadNotice {...props} />);
}
