// The code as a job ran it, and in what it differs from what stands in its cell now.

import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useRef, useState } from 'react';

import { TextButton } from '../../components/textButton';
import type { INumberedCode } from '../codeDiff';
import type { ICurrentCode, MissingReason } from '../codeLocator';
import { DiffLines } from './primitives';

/** What is known of the cell or the file now: nothing yet, why it is not there, or in what it differs. */
export type CodeComparison =
  'asking' | 'program' | MissingReason | { origin: ICurrentCode; lines: readonly string[] };

export interface ICodeProps {
  name: string;
  ran: INumberedCode;
  since: CodeComparison;
  /** Whether it came from a file of its own and not from a notebook. */
  isFile: boolean;
  trans: TranslationBundle;
  languages: IEditorLanguageRegistry | null;
  onOpen?: (path: string) => void;
}

export function Code(props: ICodeProps): JSX.Element {
  const { name, ran, since, trans, languages } = props;
  const [isDiff, setDiff] = useState(true);
  const lines = typeof since === 'string' ? [] : since.lines;
  const showsDiff = isDiff && lines.length > 0;
  return (
    <>
      <div className="jp-smx-code-line">
        <p role="status">{sinceWords(props)}</p>
        {lines.length > 0 ? (
          <span className="jp-smx-acts" role="group" aria-label={trans.__('View')}>
            <TextButton
              label={trans.__('Changes')}
              isPressed={isDiff}
              onClick={() => setDiff(true)}
            />
            <TextButton
              label={trans.__('As submitted')}
              isPressed={!isDiff}
              onClick={() => setDiff(false)}
            />
          </span>
        ) : null}
        <GoThere {...props} />
      </div>
      {showsDiff ? (
        <DiffLines lines={lines} label={trans.__('Changes to the code of %1 since it ran', name)} />
      ) : (
        <Listing
          ran={ran}
          label={trans.__('Code of %1 as submitted', name)}
          languages={languages}
        />
      )}
    </>
  );
}

function sinceWords({ since, isFile, trans }: ICodeProps): string {
  if (typeof since !== 'string') {
    return since.lines.length > 0
      ? trans.__('%1 has changed since the job ran.', whatWords(since.origin, isFile, trans))
      : trans.__('%1 has not changed since the job ran.', whatWords(since.origin, isFile, trans));
  }
  const words: Record<Exclude<CodeComparison, object>, string> = {
    asking: '',
    program: trans.__('This code was submitted by a program, not from a cell.'),
    unnamed: trans.__('The record does not name a notebook, so the cell cannot be found.'),
    elsewhere: trans.__(
      'The file is outside the root folder of this server, so changes cannot be shown.'
    ),
    gone: trans.__('The file was moved or deleted, or cannot be read, so changes cannot be shown.'),
    'no-cell': trans.__(
      'The cell is no longer in its notebook, or several cells have the same code.'
    )
  };
  return words[since];
}

function whatWords({ path }: ICurrentCode, isFile: boolean, trans: TranslationBundle): string {
  return isFile ? trans.__('The file %1', path) : trans.__('The cell in %1', path);
}

function GoThere({ since, isFile, trans, onOpen }: ICodeProps): JSX.Element | null {
  if (typeof since === 'string') {
    return null;
  }
  const { reveal, path } = since.origin;
  if (reveal) {
    return <TextButton label={trans.__('Go to cell')} onClick={reveal} />;
  }
  const label = isFile ? trans.__('Open file') : trans.__('Open notebook');
  return onOpen ? <TextButton label={label} onClick={() => onOpen(path)} /> : null;
}

/** Numbered lines; colours come when the language is loaded. */
function Listing(props: {
  ran: INumberedCode;
  label: string;
  languages: IEditorLanguageRegistry | null;
}): JSX.Element {
  const { ran, label, languages } = props;
  const place = useRef<HTMLPreElement>(null);
  useEffect(() => {
    let isCurrent = true;
    const drawn = document.createElement('pre');
    void languages?.highlight(ran.code, languages.findByMIME('text/x-python'), drawn).then(() => {
      if (isCurrent) {
        place.current?.replaceChildren(...drawn.childNodes);
      }
    });
    place.current?.replaceChildren(ran.code);
    return () => {
      isCurrent = false;
    };
  }, [ran.code, languages]);
  const numbers = ran.code.split('\n').map((_, index) => ran.first + index);
  return (
    <div className="jp-smx-listing" role="region" aria-label={label} tabIndex={0}>
      <pre className="jp-smx-numbers" aria-hidden="true">
        {numbers.join('\n')}
      </pre>
      <pre className="jp-smx-code" ref={place} />
    </div>
  );
}
