// How a job differs from another one, which is chosen from a list.

import type { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';

import type { Comparison, JobSummary } from '../../_types';
import type { INamedJob } from '../../state/state';
import { DiffLines, Subsection, Table } from './primitives';

export interface ICompareProps {
  name: string;
  /** The jobs that can be chosen. */
  others: readonly INamedJob[];
  /** The id of the chosen one, '' for the run before. */
  other: string;
  /** The server's answer, or the message of a failure; null before the first answer. */
  found: Comparison | string | null;
  trans: TranslationBundle;
  onChoose: (id: string) => void;
}

export function Compare(props: ICompareProps): JSX.Element {
  const { other, found, trans, onChoose } = props;
  const field = useId();
  return (
    <>
      <p className="jp-smx-choice">
        <label htmlFor={field}>{trans.__('Compare with')}</label>{' '}
        <select
          id={field}
          className="jp-smx-select"
          value={other}
          onChange={event => onChoose(event.target.value)}
        >
          <option value="">{trans.__('Previous run')}</option>
          {withChosen(props).map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </p>
      <div role="status">{typeof found === 'string' ? found : (found?.sentence ?? '')}</div>
      {found && typeof found !== 'string' ? <Differences found={found} trans={trans} /> : null}
    </>
  );
}

/** Return the jobs to choose from, and the chosen one: a command may name another job, whose name is in the answer. */
function withChosen({ name, others, other, found }: ICompareProps): readonly INamedJob[] {
  if (other === '' || others.some(({ id }) => id === other)) {
    return others;
  }
  const names = found && typeof found !== 'string' ? [found.before, found.after] : [];
  return [{ id: other, name: names.find(one => one !== name) ?? other }, ...others];
}

function Differences({
  found,
  trans
}: {
  found: Comparison;
  trans: TranslationBundle;
}): JSX.Element {
  const { before, after, changes, code, unknown } = found;
  return (
    <>
      {changes.length > 0 ? (
        <Subsection title={trans.__('Differences')}>
          <Table
            label={trans.__('Differences between %1 and %2', before, after)}
            head={[trans.__('What'), trans.__('Name'), before, after]}
            rows={changes.map(one => [one.section, one.name, one.before ?? '–', one.after ?? '–'])}
          />
        </Subsection>
      ) : null}
      {code.length > 0 ? (
        <Subsection title={trans.__('Code')}>
          <DiffLines lines={code} label={trans.__('Changes from %1 to %2', before, after)} />
        </Subsection>
      ) : null}
      {unknown.length > 0 ? (
        <Subsection title={trans.__('Not compared')}>
          {unknown.map(sentence => (
            <p key={sentence}>{sentence}</p>
          ))}
        </Subsection>
      ) : null}
    </>
  );
}

/** Return the jobs to choose from: those of the same name first, each group newest first. */
export function comparisonCandidates(
  job: { id: string; base_name: string },
  all: Iterable<JobSummary>
): JobSummary[] {
  const isKin = (one: JobSummary): number => Number(one.base_name === job.base_name);
  return [...all]
    .filter(one => one.id !== job.id)
    .sort((a, b) => isKin(b) - isKin(a) || b.created_at - a.created_at)
    .slice(0, MOST);
}

const MOST = 200;
