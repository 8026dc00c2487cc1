// Draws the characters of one log row with their colours.

import React from 'react';

import type { ISearchTerm, ITextSpan } from './ansi';
import { parseSpans } from './ansi';
import type { IRow } from './rows';

interface IRowTextProps {
  row: IRow;
  /** What is looked for. */
  words: ISearchTerm | null;
}

export function RowText({ row, words }: IRowTextProps): JSX.Element {
  return (
    <>
      {parseSpans(row, words).map((span, key) => (
        <Span key={key} {...span} />
      ))}
    </>
  );
}

function Span({ text, className, color, background, isHit }: ITextSpan): JSX.Element {
  const Name = isHit ? 'mark' : 'span';
  return className || color || background || isHit ? (
    <Name className={className} style={{ color, backgroundColor: background }}>
      {text}
    </Name>
  ) : (
    <>{text}</>
  );
}
