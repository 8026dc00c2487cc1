// How far a job is and what it measures, as a bar with its number and a few words.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { JobSummary } from '../_types';
import { formatRemark } from '../format/jobText';
import { plainText, TEXT_LIMIT } from '../format/plainText';
import {
  formatExpectedDuration,
  formatMetrics,
  formatProgress,
  progressPercent
} from '../format/progressText';
import { formatUsage } from '../format/usageText';
import type { ITrend } from '../state/trends';
import { Sparkline } from './sparkline';

interface IOutlookProps {
  job: JobSummary;
  trans: TranslationBundle;
}

/** The bar of a running job; only its words where the job announced no end, nothing where it says nothing. */
export function JobProgress({ job, trans }: IOutlookProps): JSX.Element | null {
  const [value, text] = [progressPercent(job), formatProgress(job)];
  if (value === null) {
    return text ? <div className="jp-smx-progress-text">{text}</div> : null;
  }
  const number = trans.__('%1 %', value);
  return (
    <div className="jp-smx-progress">
      <div
        className="jp-smx-progress-bar"
        role="progressbar"
        aria-label={trans.__('Progress of %1', job.name)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={value}
        aria-valuetext={[number, text].filter(Boolean).join(', ')}
      >
        <div style={{ width: `${value}%` }} />
      </div>
      <span className="jp-smx-progress-number" aria-hidden="true">
        {number}
      </span>
      {/* What is read aloud is the value of the bar. */}
      <span className="jp-smx-progress-text" title={text} aria-hidden="true">
        {text}
      </span>
    </div>
  );
}

/** A full core, or a full GPU. */
const FULL = 100;

/** What a job uses of its hosts, and the newest values of its metrics; nothing where nothing is known. */
export function JobMetrics(props: IOutlookProps & { trend?: ITrend }): JSX.Element | null {
  const { job, trend, trans } = props;
  const said = [
    ...formatUsage(job, trans).map(({ of, words }) => ({
      words,
      values: (of === 'memory' ? undefined : trend?.[of]) ?? []
    })),
    ...formatMetrics(job, trans).map(words => ({ words, values: [] }))
  ];
  if (said.length === 0) {
    return null;
  }
  return (
    <div className="jp-smx-metrics" aria-label={trans.__('Metrics of %1', job.name)} role="group">
      {said.map(({ words, values }, index) => (
        <React.Fragment key={index}>
          {index > 0 ? ' · ' : ''}
          <span className="jp-smx-word">
            <Sparkline values={values} full={FULL} />
            {words}
          </span>
        </React.Fragment>
      ))}
    </div>
  );
}

/** What a job waits for, beside its step. */
export function JobRemark({ job, trans }: IOutlookProps): JSX.Element | null {
  const says = formatRemark(job, trans);
  return says ? <p className="jp-smx-says">{plainText(says, TEXT_LIMIT)}</p> : null;
}

/** How long a running job is expected to take, beside its clock. */
export function JobExpectedDuration({ job, trans }: IOutlookProps): JSX.Element | null {
  const words = formatExpectedDuration(job, trans);
  if (!words) {
    return null;
  }
  const basis =
    job.expectation?.basis === 'history'
      ? trans._n(
          'based on the last run of this code',
          'based on the last %1 runs of this code',
          job.expectation.runs
        )
      : trans.__('based on the reported progress');
  return (
    <span className="jp-smx-expected" title={basis}>
      {words}
    </span>
  );
}
