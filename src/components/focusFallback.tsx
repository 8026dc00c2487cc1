// Who acted on something that went away goes on beside it, not at the top of the page.

import React from 'react';

export interface IFocusFallbackProps {
  /** What holds the focus while any of its nodes does. */
  node: HTMLElement;
  /** Give the focus to what is left. */
  onLost: () => void;
  children: React.ReactNode;
}

/**
 * Tells when what was drawn took the focus with it.
 */
export class FocusFallback extends React.Component<IFocusFallbackProps> {
  // Before and after React's own change: an idle moment may come between the order to draw and the drawing.
  getSnapshotBeforeUpdate(): boolean {
    return this.props.node.contains(document.activeElement);
  }

  componentDidUpdate(_props: IFocusFallbackProps, _state: unknown, hadFocus: boolean): void {
    if (hadFocus && document.activeElement === document.body) {
      this.props.onLost();
    }
  }

  render(): React.ReactNode {
    return this.props.children;
  }
}
