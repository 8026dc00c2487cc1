// The button that opens and closes what is below a line: of a card, of the card of an array, of the row of an array.

import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React from 'react';

interface IFoldButtonProps {
  isOpen: boolean;
  label: string;
  tabIndex?: number;
  onFold: () => void;
}

export function FoldButton({ isOpen, label, tabIndex, onFold }: IFoldButtonProps): JSX.Element {
  const Icon = isOpen ? caretDownIcon.react : caretRightIcon.react;
  return (
    <button
      type="button"
      className="jp-smx-fold"
      aria-expanded={isOpen}
      aria-label={label}
      tabIndex={tabIndex}
      onClick={onFold}
    >
      <Icon tag="span" width="14px" height="14px" />
    </button>
  );
}
