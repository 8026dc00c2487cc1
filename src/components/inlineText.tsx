// Words with dots between, which break into lines only at the dots.

import React from 'react';

export type InlineItem = string | JSX.Element;

export function InlineList({ words }: { words: readonly InlineItem[] }): JSX.Element {
  return (
    <div className="jp-smx-row-detail">
      <Items words={words} />
    </div>
  );
}

/** The same on one line that is cut at its end; `title` is the tooltip with all of it. */
export function InlineLine(props: { words: readonly InlineItem[]; title: string }): JSX.Element {
  return (
    <div className="jp-smx-row-detail jp-smx-line" title={props.title}>
      <Items words={props.words} />
    </div>
  );
}

function Items({ words }: { words: readonly InlineItem[] }): JSX.Element {
  const said = words.filter(Boolean);
  return (
    <>
      {said.map((word, index) => (
        <React.Fragment key={index}>
          <span className="jp-smx-word">
            {word}
            {index < said.length - 1 ? ' ·' : ''}
          </span>{' '}
        </React.Fragment>
      ))}
    </>
  );
}

/** A sentence whose lines end nowhere in an option, as `--keep-alive 10m`, whose dashes browsers take for hyphens. */
export function OptionText({ words }: { words: string }): JSX.Element {
  const parts = words.split(/(--[\w-]+ \w+)/);
  return (
    <>
      {parts.map((part, index) =>
        index % 2 === 0 ? (
          part
        ) : (
          <span key={index} className="jp-smx-word">
            {part}
          </span>
        )
      )}
    </>
  );
}
