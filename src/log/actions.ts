// What one can do with a log that is shown, found by the element that is in it: for commands, which load nothing.

/** The name that a view's element has. */
export const LOG_CLASS = 'jp-smx-log';

export interface ILogActions {
  find: () => void;
  findNext: () => void;
  findPrevious: () => void;
  toBegin: () => void;
  toEnd: () => void;
  toggleFollow: () => void;
  toggleWrap: () => void;
  download: () => void;
}

const shown = new WeakMap<Element, ILogActions>();

export function registerActions(node: Element, actions: ILogActions): void {
  shown.set(node, actions);
}

/** Of the log that an element is in, or that is in it. */
export function findActions(element: Element | null | undefined): ILogActions | null {
  const node = element?.closest(`.${LOG_CLASS}`) ?? element?.querySelector(`.${LOG_CLASS}`);
  return (node && shown.get(node)) ?? null;
}
