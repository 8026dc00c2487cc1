// A button with a word on it.

import React from 'react';

interface IButtonProps {
  label: string;
  onClick: () => void;
  isPressed?: boolean;
  isDisabled?: boolean;
  /** What it is called instead of its word, where that does not say enough. */
  describedAs?: string;
}

export function TextButton(props: IButtonProps): JSX.Element {
  const { label, onClick, isPressed, isDisabled, describedAs } = props;
  return (
    <button
      type="button"
      className="jp-smx-button"
      aria-pressed={isPressed}
      aria-label={describedAs}
      title={describedAs}
      disabled={isDisabled}
      onClick={onClick}
    >
      {label}
    </button>
  );
}
