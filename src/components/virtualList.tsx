// A list of any length: the rows that are in sight are drawn, one of them can be tabbed to, arrows go from row to row.

import type { Range, Virtualizer } from '@tanstack/react-virtual';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import React, { useCallback, useEffect, useRef, useState } from 'react';

/** What a row spreads over its `li`. */
export type RowAttributes = React.LiHTMLAttributes<HTMLLIElement> & {
  ref: (node: HTMLLIElement | null) => void;
  'data-index': number;
};

export interface IVirtualListProps<T> {
  items: readonly T[];
  /** The accessible name of the list. */
  label: string;
  /** The element that scrolls. */
  scroller: HTMLElement;
  /** Pixels that a row has before anybody measured it. */
  estimate: number;
  /** Draw a row; its buttons can be tabbed to where it is the current one. */
  children: (item: T, place: RowAttributes, isCurrent: boolean) => JSX.Element;
  /** Enter, or a double click, on a row. */
  onOpen?: (item: T) => void;
  /** An arrow to the right opens a row that can be opened, one to the left closes it. */
  onFold?: (item: T, isOpen: boolean) => void;
  /** The Delete key on a row. */
  onDelete?: (item: T) => void;
  /** False if the rows take no focus, and their buttons stay tab stops; the keys that go from row to row do nothing then. */
  hasRowFocus?: boolean;
  /** What comes after the last row: another one for each page that was read, null where nothing comes. */
  page?: string | null;
  /** The last row is in sight, and a page comes after it. */
  onEnd?: () => void;
}

/**
 * Pixels of a row with a name and one line of details, in Lab's own font size. Rows are placed and drawn again if they
 * turn out to have another height, so that most rows of a long list should have this one.
 */
export const TWO_LINE_ROW = 41;

/** Rows that are drawn beyond those in sight. */
const OVERSCAN = 6;

export function VirtualList<T extends { id: string }>(props: IVirtualListProps<T>): JSX.Element {
  const { items, label, scroller, estimate, hasRowFocus = true, page = null, onEnd } = props;
  const [current, setCurrent] = useState<string | null>(null);
  const at = usePlace(items, current);
  const virtualizer = useVirtualizer<HTMLElement, HTMLLIElement>({
    count: items.length,
    getScrollElement: () => scroller,
    estimateSize: () => estimate,
    // With another function, all places of rows are computed again at each scroll event.
    getItemKey: useCallback((index: number) => items[index].id, [items]),
    overscan: OVERSCAN,
    // The current row may hold the focus, which is lost with it.
    rangeExtractor: range => withRow(range, at)
  });
  const drawn = virtualizer.getVirtualItems();
  const isEnd = drawn.length > 0 && drawn[drawn.length - 1].index === items.length - 1;
  useLoadMore(isEnd ? page : null, onEnd);
  const keys = useRowKeys(props, at, virtualizer, setCurrent);
  return (
    <ul
      className="jp-smx-list jp-smx-rows"
      aria-label={label}
      style={{ height: virtualizer.getTotalSize() }}
      {...(hasRowFocus ? keys : {})}
    >
      {drawn.map(({ index, start }) => {
        const item = items[index];
        const place: RowAttributes = {
          ref: virtualizer.measureElement,
          'data-index': index,
          'aria-setsize': items.length,
          'aria-posinset': index + 1,
          tabIndex: hasRowFocus ? (index === at ? 0 : -1) : undefined,
          style: { transform: `translateY(${start}px)` },
          onFocus: () => setCurrent(item.id)
        };
        return (
          <React.Fragment key={item.id}>{props.children(item, place, index === at)}</React.Fragment>
        );
      })}
    </ul>
  );
}

/** Where the current row is; when it went away, the one that came in its place is current. */
function usePlace(items: readonly { id: string }[], current: string | null): number {
  const last = useRef(0);
  const found = items.findIndex(item => item.id === current);
  last.current = found < 0 ? Math.max(0, Math.min(last.current, items.length - 1)) : found;
  return last.current;
}

/**
 * Ask for what comes after the end, once for each `page`; null while the end is not in sight, or nothing follows.
 */
export function useLoadMore(page: string | null, onEnd?: () => void): void {
  // Not how many rows there are: a page may be of one array, or have nothing that the filter lets through.
  useEffect(() => {
    if (page !== null) {
      onEnd?.();
    }
  }, [page]);
}

function withRow(range: Range, row: number): number[] {
  const seen = defaultRangeExtractor(range);
  return row < range.count && !seen.includes(row) ? [...seen, row].sort((a, b) => a - b) : seen;
}

type ListKeys = Pick<React.HTMLAttributes<HTMLUListElement>, 'onKeyDown' | 'onDoubleClick'>;

function useRowKeys<T extends { id: string }>(
  { items, onOpen, onFold, onDelete }: IVirtualListProps<T>,
  at: number,
  virtualizer: Virtualizer<HTMLElement, HTMLLIElement>,
  setCurrent: (id: string) => void
): ListKeys {
  const list = useRef<HTMLUListElement | null>(null);
  const focusLater = useFocusAfterRender(list);
  const go = (index: number): void => {
    const target = Math.min(Math.max(index, 0), items.length - 1);
    virtualizer.scrollToIndex(target);
    if (target !== at) {
      // Where nothing moves nothing is drawn, and the wish would take the focus at some later time.
      focusLater(target);
      setCurrent(items[target].id);
    }
  };
  const onRow = (key: string): boolean => {
    const target = STEPS[key]?.(at, items.length);
    if (target !== undefined) {
      go(target);
    } else if (key === 'Enter' && onOpen) {
      onOpen(items[at]);
    } else if (key in FOLDS && onFold) {
      onFold(items[at], FOLDS[key]);
    } else if (key === 'Delete' && onDelete) {
      onDelete(items[at]);
    } else {
      return false;
    }
    return true;
  };
  return {
    onKeyDown: event => {
      list.current = event.currentTarget;
      const isRow = (event.target as HTMLElement).tagName === 'LI';
      if (items.length > 0 && (isRow || event.key in STEPS) && onRow(event.key)) {
        event.preventDefault();
        event.stopPropagation();
      }
    },
    onDoubleClick: event => {
      openAt(event.target as HTMLElement, index => onOpen?.(items[index]));
    }
  };
}

/** Open the row in which there was a double click, unless a button was meant; the word under it was not. */
function openAt(target: HTMLElement, open: (index: number) => void): void {
  const row = target.closest<HTMLElement>('[data-index]');
  if (row && !target.closest('button')) {
    row.ownerDocument.getSelection()?.removeAllRanges();
    open(Number(row.dataset.index));
  }
}

/** A row that is far away is there only when the list was drawn again. */
function useFocusAfterRender(list: React.RefObject<HTMLElement>): (index: number) => void {
  const wanted = useRef<number | null>(null);
  useEffect(() => {
    if (wanted.current !== null) {
      const row = list.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"]`);
      row?.focus({ preventScroll: true });
      wanted.current = null;
    }
  });
  return index => {
    wanted.current = index;
  };
}

const FOLDS: Record<string, boolean> = { ArrowRight: true, ArrowLeft: false };

const STEPS: Record<string, ((at: number, count: number) => number) | undefined> = {
  ArrowDown: at => at + 1,
  ArrowUp: at => at - 1,
  Home: () => 0,
  End: (_, count) => count - 1,
  PageDown: at => at + 10,
  PageUp: at => at - 10
};
