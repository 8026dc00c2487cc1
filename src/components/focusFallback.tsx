// When the focused node goes away, moves the focus to what is beside it instead of the top of the page.

import React from 'react';

export interface IFocusFallbackProps {
  /** The node whose loss of focus counts, with all nodes inside it. */
  node: HTMLElement;
  /** Give the focus to one of the remaining nodes. */
  onLost: () => void;
  children: React.ReactNode;
}

/**
 * Calls `onLost` if a render removed the focused node.
 */
export class FocusFallback extends React.Component<IFocusFallbackProps> {
  // Check directly before and after React's change: a delay may lie between the request to render and the rendering.
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
