// The name of a job or a pool on one line: if it is too long, its middle is left out, since many names differ at their end.

import React from 'react';

import { NAME_LIMIT, plainText } from '../format/plainText';

/** Characters at the end that are always shown. */
const TAIL = 16;

/** Characters of a tooltip. */
const TITLE_LIMIT = 1000;

/** `title` is the tooltip: the whole name, and what the line leaves out. */
export function JobName({ name, title = name }: { name: string; title?: string }): JSX.Element {
  const characters = Array.from(plainText(name, NAME_LIMIT));
  const cut = Math.max(0, characters.length - TAIL);
  return (
    <span className="jp-smx-name jp-smx-middle" title={plainText(title, TITLE_LIMIT)}>
      <span className="jp-smx-name-head">{characters.slice(0, cut).join('')}</span>
      <span className="jp-smx-name-tail">{characters.slice(cut).join('')}</span>
    </span>
  );
}
