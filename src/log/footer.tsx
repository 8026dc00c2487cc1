// The status of a log: what went wrong and what to do, the state of the job, how much of the log is shown.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { TextButton } from '../components/textButton';
import { formatSize } from '../format/numbers';
import { formatLogError } from './logError';
import type { ILogPart } from './logSource';
import type { LogReader } from './reader';

interface IProblemProps {
  reader: LogReader;
  trans: TranslationBundle;
  onAgain: () => void;
  /** Start the controller; absent if that is not possible. */
  onWake?: () => void;
}

export function LogErrorNotice(props: IProblemProps): JSX.Element | null {
  const { reader, trans, onAgain, onWake } = props;
  const { problem } = reader;
  if (!problem) {
    return null;
  }
  return (
    <div className="jp-smx-notice" role="alert">
      <p>{formatLogError(problem, trans)}</p>
      {problem.kind === 'gone' ? null : (
        <TextButton label={trans.__('Try again')} onClick={onAgain} />
      )}
      {problem.isAsleep && onWake ? (
        <TextButton label={trans.__('Start the controller')} onClick={onWake} />
      ) : null}
    </div>
  );
}

export function LogFooter({ reader, trans }: Pick<IProblemProps, 'reader' | 'trans'>): JSX.Element {
  return (
    <div className="jp-smx-log-foot">
      <span role="status">{stateWords(reader, trans).join(' ')}</span>
      <span>{placeWords(reader, trans)}</span>
    </div>
  );
}

/** Return the state of the log in words, for a screen reader. */
function stateWords(reader: LogReader, trans: TranslationBundle): string[] {
  const { latest, isEnded, total, window } = reader;
  if (!latest) {
    return [];
  }
  const said = [runWords(reader, latest, trans)];
  if (!window.isText) {
    said.unshift(
      trans.__('Bytes that are not text are shown as �; a download keeps them unchanged.')
    );
  }
  if (total === 0) {
    said.unshift(isEnded ? trans.__('No output.') : trans.__('No output yet.'));
  }
  return said;
}

function runWords(
  { isEnded, isFollowing, total, window }: LogReader,
  { attempt, attempts }: Pick<ILogPart, 'attempt' | 'attempts'>,
  trans: TranslationBundle
): string {
  if (attempt < attempts) {
    return trans.__(
      'This attempt ended because a host was lost; attempt %1 followed.',
      attempt + 1
    );
  }
  if (isEnded) {
    return trans.__('The job has ended.');
  }
  return !isFollowing && window.end < total ? trans.__('More output below.') : '';
}

/** Return the position in a log of which only a part is in memory. */
function placeWords({ window, total }: LogReader, trans: TranslationBundle): string {
  const { start, end } = window;
  const size = formatSize(total, trans);
  if (start === 0 && end >= total) {
    return total > 0 ? size : '';
  }
  const loaded = formatSize(end - start, trans);
  if (end >= total) {
    return trans.__('last %1 of %2', loaded, size);
  }
  return start === 0
    ? trans.__('first %1 of %2', loaded, size)
    : trans.__('%1 from offset %2 of %3', loaded, formatSize(start, trans), size);
}
