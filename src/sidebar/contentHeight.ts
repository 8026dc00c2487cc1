// Limits the height of a section of the panel to that of its content, so that an empty section takes one line.

import type { IDisposable } from '@lumino/disposable';
import type { Widget } from '@lumino/widgets';
import { SplitPanel } from '@lumino/widgets';

/** Pixels for rounding, so that a section without more rows has no scrollbar. */
const SLACK = 1;

/** Pixels that no panel has: content as high as that limits nothing, and the panel need not follow its height. */
const UNLIMITED = 5000;

export class ContentHeight implements IDisposable {
  constructor(private readonly widget: Widget) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._sizes?.disconnect();
  }

  /** Follow the height of `content`, the only child of the section; null if it has none. */
  follow(content: HTMLElement | null): void {
    this._sizes?.disconnect();
    if (content === null || this._isDisposed) {
      return;
    }
    this._sizes = new ResizeObserver(() => this._apply(content.getBoundingClientRect().height));
    this._sizes.observe(content);
  }

  private _apply(height: number): void {
    // A section that is collapsed or hidden has no height, and shows its rows when it is opened.
    const limit = height < UNLIMITED ? `${Math.ceil(height) + SLACK}px` : 'none';
    const { node, parent } = this.widget;
    if (height === 0 || node.style.maxHeight === limit) {
      return;
    }
    // False without a limit, whose number is not a number.
    const wasWhole = node.offsetHeight + SLACK >= Number.parseFloat(node.style.maxHeight);
    node.style.maxHeight = limit;
    parent?.fit();
    // The panel gives what a section no longer takes to the others, and takes nothing back by itself.
    if (wasWhole && parent instanceof SplitPanel && height > node.offsetHeight) {
      this._takeBack(parent, height);
    }
  }

  /** Take what the section lacks from the highest one, and leave the others as a user may have set them. */
  private _takeBack(panel: SplitPanel, height: number): void {
    const own = panel.widgets.indexOf(this.widget);
    const sizes = panel.widgets.map(({ node }) => node.offsetHeight);
    const missing = height - sizes[own];
    const others = sizes.map((size, index) => (index === own ? 0 : size));
    const highest = others.indexOf(Math.max(...others));
    sizes[own] = height;
    sizes[highest] = Math.max(0, sizes[highest] - missing);
    panel.setRelativeSizes(sizes);
  }

  private _sizes: ResizeObserver | null = null;
  private _isDisposed = false;
}
