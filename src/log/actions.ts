// What one can do with a log that is shown, found by the element that is in it: for commands, which load nothing.

/** The name that a view's element has. */
export const LOG_CLASS = 'jp-smx-log';

export interface ILogActs {
  find: () => void;
  findNext: () => void;
  findPrevious: () => void;
  toBegin: () => void;
  toEnd: () => void;
  toggleFollow: () => void;
  toggleWrap: () => void;
  download: () => void;
}

const shown = new WeakMap<Element, ILogActs>();

export function offerActs(node: Element, acts: ILogActs): void {
  shown.set(node, acts);
}

/** Of the log that an element is in, or that is in it. */
export function actsOf(element: Element | null | undefined): ILogActs | null {
  const node = element?.closest(`.${LOG_CLASS}`) ?? element?.querySelector(`.${LOG_CLASS}`);
  return (node && shown.get(node)) ?? null;
}
