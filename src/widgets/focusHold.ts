// Keeps the focus on a node after a command, because the palette returns it to the document while it closes.

/** Milliseconds that it takes at most, on a slow machine too. */
const CLOSING_MS = 1000;

/**
 * Bring the focus back to `node` when it goes to `rival`, until somebody presses something.
 */
export function holdFocus(node: HTMLElement, rival: HTMLElement): void {
  const released = new AbortController();
  const release = (): void => released.abort();
  const watch = { capture: true, signal: released.signal };
  const keep = ({ target }: Event): void => {
    if (target instanceof Node && rival.contains(target) && !node.contains(target)) {
      node.focus();
    }
  };
  document.addEventListener('focusin', keep, watch);
  document.addEventListener('keydown', release, watch);
  document.addEventListener('pointerdown', release, watch);
  setTimeout(release, CLOSING_MS);
}
