// A button that copies a line, and says that it did.

import { Clipboard } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';

import { TextButton } from './textButton';

interface ICopyButtonProps {
  /** What the clipboard gets. */
  text: string;
  label: string;
  trans: TranslationBundle;
}

export function CopyButton({ text, label, trans }: ICopyButtonProps): JSX.Element {
  const [copied, setCopied] = useState('');
  const copy = (): void => {
    Clipboard.copyToSystem(text);
    setCopied(text);
  };
  return (
    <>
      <TextButton label={label} onClick={copy} />
      <span className="jp-smx-copied" role="status">
        {copied === text ? trans.__('Copied') : ''}
      </span>
    </>
  );
}
