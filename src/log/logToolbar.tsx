// The line above a log: which one, the words that are looked for, and how it is shown.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';
import {
  caretDownIcon,
  caretUpIcon,
  caseSensitiveIcon,
  downloadIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import { IconButton } from '../components/jobButtons';
import type { ILogActions } from './actions';
import type { ISearchTerm } from './ansi';
import type { ILogId } from './logSource';
import type { LogReader } from './reader';
import type { LogSearch } from './search';

/** What the server looks for at most. */
const LONGEST_WORDS = 200;

export interface ILogToolbarProps {
  reader: LogReader;
  search: LogSearch;
  /** What is in the field, whether it was looked for yet or not. */
  words: ISearchTerm;
  isWrapped: boolean;
  field: React.RefObject<HTMLInputElement>;
  trans: TranslationBundle;
  actions: ILogActions;
  onWords: (words: ISearchTerm) => void;
  /** Escape in the field. */
  onLeave: () => void;
}

export function LogToolbar(props: ILogToolbarProps): JSX.Element {
  const { reader, isWrapped, trans, actions } = props;
  return (
    <div className="jp-smx-log-tools">
      <Choices reader={reader} trans={trans} />
      <Find {...props} />
      <div className="jp-smx-log-switches">
        <Switch
          isOn={reader.isFollowing}
          label={trans.__('Follow')}
          title={trans.__('Go to the end and follow new output')}
          onClick={actions.toggleFollow}
        />
        <Switch
          isOn={isWrapped}
          label={trans.__('Wrap')}
          title={trans.__('Wrap long lines')}
          onClick={actions.toggleWrap}
        />
        <button
          type="button"
          className="jp-smx-button"
          title={trans.__('Go to the first line')}
          onClick={actions.toBegin}
        >
          {trans.__('Beginning')}
        </button>
        <IconButton
          label={trans.__('Download the full log')}
          icon={downloadIcon}
          isDisabled={reader.problem !== null}
          onClick={actions.download}
        />
      </div>
    </div>
  );
}

/** Which host and which run, where there is a choice. */
function Choices({
  reader,
  trans
}: Pick<ILogToolbarProps, 'reader' | 'trans'>): JSX.Element | null {
  const { runs, which } = reader;
  if (!runs) {
    return null;
  }
  const { hosts, attempts } = runs;
  const choose = (change: Partial<ILogId>): void => reader.choose({ ...which, ...change });
  return (
    <>
      {hosts.length > 1 ? (
        <select
          className="jp-smx-log-choice"
          aria-label={trans.__('Host')}
          value={which.host || hosts[0]}
          onChange={event => choose({ host: event.target.value })}
        >
          {hosts.map(host => (
            <option key={host}>{host}</option>
          ))}
        </select>
      ) : null}
      {attempts > 1 ? (
        <select
          className="jp-smx-log-choice"
          aria-label={trans.__('Attempt')}
          value={which.attempt || attempts}
          onChange={event => {
            const attempt = Number(event.target.value);
            // Of the newest, whichever it is: so that the next one follows it.
            choose({ attempt: attempt === attempts ? 0 : attempt });
          }}
        >
          {Array.from({ length: attempts }, (_, index) => index + 1).map(run => (
            <option key={run} value={run}>
              {trans.__('Attempt %1', run)}
            </option>
          ))}
        </select>
      ) : null}
    </>
  );
}

function Find(props: ILogToolbarProps): JSX.Element {
  const { search, words, field, trans, actions, onWords, onLeave } = props;
  const canStep = search.count > 0 || search.problem !== '';
  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (event.key === 'Enter') {
      event.preventDefault();
      (event.shiftKey ? actions.findPrevious : actions.findNext)();
    } else if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      onLeave();
    }
  };
  return (
    <div className="jp-smx-log-find" role="search">
      <input
        ref={field}
        type="search"
        className="jp-smx-filter"
        aria-label={trans.__('Search the full log')}
        placeholder={trans.__('Search the full log…')}
        maxLength={LONGEST_WORDS}
        value={words.text}
        onChange={event => onWords({ ...words, text: event.target.value })}
        onKeyDown={onKeyDown}
      />
      <Switch
        isOn={words.matchCase}
        label={trans.__('Match case')}
        icon={caseSensitiveIcon}
        onClick={() => onWords({ ...words, matchCase: !words.matchCase })}
      />
      <IconButton
        label={trans.__('Previous match')}
        icon={caretUpIcon}
        isDisabled={!canStep}
        onClick={actions.findPrevious}
      />
      <IconButton
        label={trans.__('Next match')}
        icon={caretDownIcon}
        isDisabled={!canStep}
        onClick={actions.findNext}
      />
      <Count search={search} trans={trans} />
    </div>
  );
}

/** Seen as it grows, and said once. */
function Count({ search, trans }: Pick<ILogToolbarProps, 'search' | 'trans'>): JSX.Element {
  const words = formatMatchCount(search, trans);
  return (
    <>
      <span className="jp-smx-log-count" aria-hidden="true">
        {words}
      </span>
      <span className="jp-smx-spoken" role="status">
        {search.isDone || search.problem ? words : ''}
      </span>
    </>
  );
}

/** How many lines were found, and how far was looked. */
export function formatMatchCount(search: LogSearch, trans: TranslationBundle): string {
  const { words, count, number, isDone, isTooMany, problem, progress } = search;
  if (!words) {
    return '';
  }
  if (problem) {
    return trans.__('Search stopped: %1', problem);
  }
  if (!isDone) {
    const percent = Math.floor(100 * progress);
    return trans._n('%1 line, %2 % searched', '%1 lines, %2 % searched', count, percent);
  }
  if (count === 0) {
    return trans.__('No matches');
  }
  if (isTooMany) {
    return trans.__('Last %1 matches; refine the search', count.toLocaleString());
  }
  return trans.__('%1 of %2', (number ?? 0).toLocaleString(), count.toLocaleString());
}

interface ISwitchProps {
  isOn: boolean;
  label: string;
  /** What more there is to say. */
  title?: string;
  /** Instead of the label. */
  icon?: LabIcon;
  onClick: () => void;
}

function Switch({ isOn, label, title, icon, onClick }: ISwitchProps): JSX.Element {
  return (
    <button
      type="button"
      className={icon ? 'jp-smx-button jp-smx-icon-button' : 'jp-smx-button'}
      aria-label={icon && label}
      aria-pressed={isOn}
      title={title ?? label}
      onClick={onClick}
    >
      {icon ? <icon.react tag="span" width="14px" height="14px" /> : label}
    </button>
  );
}
