// Words with dots between, which break into lines only at the dots.

import React from 'react';

export function InlineList({ words }: { words: readonly string[] }): JSX.Element {
  const said = words.filter(Boolean);
  return (
    <div className="jp-smx-row-detail">
      {said.map((word, index) => (
        <React.Fragment key={index}>
          <span className="jp-smx-word">{index < said.length - 1 ? `${word} ·` : word}</span>{' '}
        </React.Fragment>
      ))}
    </div>
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
