// Words with dots between, which break into lines only at the dots.

import React from 'react';

export function Words({ words }: { words: readonly string[] }): JSX.Element {
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
