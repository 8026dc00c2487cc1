// The rows of a log: draws the visible ones, requests more at either end, and follows the end of the log.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Virtualizer } from '@tanstack/react-virtual';
import { useVirtualizer } from '@tanstack/react-virtual';
import React, { useEffect, useLayoutEffect, useRef } from 'react';

import type { ISearchTerm } from './ansi';
import type { LogReader } from './reader';
import type { IRow } from './rows';
import { RowText } from './rowText';

/** Pixels of a row before one was measured. */
const ROW = 17;
/** Rows that are drawn beyond the visible ones. */
const OVERSCAN = 10;
/** Rows from either end at which more are requested. */
const EDGE = 30;
/** Pixels from the end at which a reader still follows. */
const NEAR = 24;
/** Milliseconds in which to scroll to a place again, because rows move it out of view as they are measured. */
const SETTLES = 2_000;
/** Keys that scroll away from the end. */
const UPWARDS = ['ArrowUp', 'PageUp', 'Home'];

export interface IRowListProps {
  reader: LogReader;
  words: ISearchTerm | null;
  /** The byte at which the words begin in the line of the current match. */
  place: number | null;
  isWrapped: boolean;
  label: string;
  scroller: React.RefObject<HTMLDivElement>;
  trans: TranslationBundle;
  /** Called with the byte after the last visible one. */
  onSeen: (end: number) => void;
}

export function RowList(props: IRowListProps): JSX.Element {
  const { reader, words, place, isWrapped, label, scroller, trans, onSeen } = props;
  const { rows } = reader.window;
  const virtualizer = useRows(props);
  const drawn = virtualizer.getVirtualItems();
  const first = drawn[0]?.index ?? 0;
  const last = drawn[drawn.length - 1]?.index ?? -1;

  const until = useRef(0);
  usePlaces(props, virtualizer, until);
  useEffect(() => {
    if (first < EDGE) {
      reader.earlier();
    }
    if (last >= rows.length - EDGE) {
      reader.later();
    }
    onSeen(rows[last]?.end ?? 0);
  }, [rows, first, last]);
  const current = place === null ? -1 : reader.window.indexOf(place);
  return (
    <div
      ref={scroller}
      className="jp-smx-log-lines"
      data-wrap={isWrapped}
      role="log"
      aria-label={label}
      // Do not read a flood of lines aloud; the status below announces what happens to the job.
      aria-live="off"
      tabIndex={0}
      {...useFollowing(reader, until)}
    >
      <div className="jp-RenderedText" style={{ height: virtualizer.getTotalSize() }}>
        {drawn.map(({ index, key, start }) => (
          <Row
            key={key}
            row={rows[index]}
            index={index}
            top={start}
            words={words}
            isCurrent={index === current}
            measure={virtualizer.measureElement}
            trans={trans}
          />
        ))}
      </div>
    </div>
  );
}

function useRows({ reader, scroller }: IRowListProps): Virtualizer<HTMLDivElement, HTMLPreElement> {
  const { rows } = reader.window;
  return useVirtualizer<HTMLDivElement, HTMLPreElement>({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    getItemKey: index => rows[index].start,
    overscan: OVERSCAN,
    // Rows that are added above keep the visible ones in place.
    anchorTo: 'end',
    scrollEndThreshold: NEAR
  });
}

/** Stay at the end while following; else scroll to a place, again and again for a while as rows are measured. */
function usePlaces(
  { reader, isWrapped, scroller }: IRowListProps,
  virtualizer: Virtualizer<HTMLDivElement, HTMLPreElement>,
  until: React.MutableRefObject<number>
): void {
  const { isFollowing, target, window } = reader;
  const sought = target && window.rows.length > 0 ? window.indexOf(target.place) : -1;
  useLayoutEffect(() => virtualizer.measure(), [isWrapped]);
  useLayoutEffect(() => {
    if (isFollowing && !isSelecting(scroller.current)) {
      virtualizer.scrollToEnd();
    }
  }, [window.rows, isFollowing, isWrapped]);
  useLayoutEffect(() => {
    if (sought >= 0) {
      until.current = performance.now() + SETTLES;
      virtualizer.scrollToIndex(sought, { align: 'center' });
    }
  }, [target]);
  useLayoutEffect(() => {
    const { range } = virtualizer;
    const isAway = range !== null && (sought < range.startIndex || sought > range.endIndex);
    if (sought >= 0 && isAway && !isFollowing && performance.now() < until.current) {
      virtualizer.scrollToIndex(sought, { align: 'center' });
    }
  });
}

type Scrolling = Pick<
  React.HTMLAttributes<HTMLDivElement>,
  'onScroll' | 'onWheel' | 'onKeyDown' | 'onPointerDown'
>;

/** Stop following when the user scrolls up, follow again at the end, and let any scrolling cancel a place. */
function useFollowing(reader: LogReader, until: React.MutableRefObject<number>): Scrolling {
  const before = useRef(0);
  const leave = (): void => {
    until.current = 0;
  };
  return {
    onPointerDown: leave,
    onScroll: ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
      const isUp = scrollTop < before.current - 1;
      const isDown = scrollTop > before.current + 1;
      const isNear = scrollHeight - scrollTop - clientHeight < NEAR;
      before.current = scrollTop;
      if (isUp && !isNear) {
        reader.follow(false);
      } else if (isDown && isNear && reader.window.end >= reader.total) {
        reader.follow(true);
      }
    },
    onWheel: ({ deltaY, currentTarget: { scrollTop } }) => {
      leave();
      if (deltaY < 0 && scrollTop > 0) {
        reader.follow(false);
      }
    },
    onKeyDown: ({ key, currentTarget: { scrollTop } }) => {
      leave();
      if (UPWARDS.includes(key) && scrollTop > 0) {
        reader.follow(false);
      }
    }
  };
}

/** Return true while the user selects text, which must not scroll away. */
function isSelecting(node: HTMLElement | null): boolean {
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && node?.contains(selection.anchorNode));
}

interface IRowProps {
  row: IRow;
  index: number;
  top: number;
  words: ISearchTerm | null;
  isCurrent: boolean;
  measure: (node: HTMLPreElement | null) => void;
  trans: TranslationBundle;
}

const Row = React.memo((props: IRowProps): JSX.Element => {
  const { row, index, top, words, isCurrent, measure, trans } = props;
  return (
    <pre
      ref={measure}
      className="jp-smx-log-row"
      data-index={index}
      data-current={isCurrent || undefined}
      style={{ transform: `translateY(${top}px)` }}
    >
      {row.isContinued ? <Mark text={trans.__('(continued) ')} /> : null}
      <RowText row={row} words={words} />
      {row.goesOn ? <Mark text={trans.__(' (long line, continued below)')} /> : null}
    </pre>
  );
});

/** A remark in a row, which is not copied with its text. */
function Mark({ text }: { text: string }): JSX.Element {
  return <span className="jp-smx-log-mark">{text}</span>;
}
