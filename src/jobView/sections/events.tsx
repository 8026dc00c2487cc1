// What happened to a job: its steps, why it began warm or cold, the way to its first line, and its earlier runs.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Attempt, Transition, Why } from '../../_types';
import { formatStep } from '../../format/jobText';
import { formatDuration } from '../../format/numbers';
import { plainText, TEXT_LIMIT } from '../../format/plainText';
import type { IJobRecord } from '../jobSource';
import { attemptSeconds, runSeconds, wasClockChanged } from './durations';
import { DescriptionList, Subsection, Table, Timestamp } from './primitives';

interface IEventsProps {
  job: IJobRecord;
  now: number;
  trans: TranslationBundle;
}

export function Events({ job, now, trans }: IEventsProps): JSX.Element {
  return (
    <>
      <Failure job={job} trans={trans} />
      {job.exit_message ? (
        <Subsection title={trans.__('Exit message')}>
          <p>{plainText(job.exit_message, TEXT_LIMIT)}</p>
        </Subsection>
      ) : null}
      {job.why ? <WhyPart why={job.why} trans={trans} /> : null}
      <Subsection title={trans.__('Steps')}>
        <Table
          label={trans.__('Steps of %1', job.name)}
          head={[trans.__('Step'), trans.__('Started'), trans.__('Duration'), trans.__('Message')]}
          rows={job.transitions.map(step => [
            statusWords(step, job, trans),
            <Timestamp at={step.start_time} />,
            took(step, now, trans),
            step.status_message
          ])}
        />
        <ClockSet job={job} now={now} trans={trans} />
      </Subsection>
      <StartUp job={job} trans={trans} />
      <Attempts job={job} trans={trans} />
    </>
  );
}

function statusWords(step: Transition, job: IJobRecord, trans: TranslationBundle): string {
  const summary = { ...job.summary, queue_position: null, start: '', failure_type: '' };
  return formatStep({ ...summary, secondary_status: step.status }, trans);
}

function took({ start_time, end_time }: Transition, now: number, trans: TranslationBundle): string {
  // The verdict is a moment and lasts for no time.
  if (end_time === start_time) {
    return '';
  }
  return end_time === null
    ? trans.__('%1 so far', formatDuration(Math.max(0, now - start_time), trans))
    : formatDuration(Math.max(0, end_time - start_time), trans);
}

/** Steps are kept by the clock that people set; where that was done, how long all took is told as it was counted. */
function ClockSet({ job, now, trans }: IEventsProps): JSX.Element | null {
  const seconds = runSeconds(job, now);
  return seconds === null || !wasClockChanged(job, now) ? null : (
    <p>
      {trans.__(
        'The system clock was changed during the job, so step durations may be wrong. Unaffected by the change, the hosts worked for %1.',
        formatDuration(seconds, trans)
      )}
    </p>
  );
}

/** The cause and, behind it, what cures it. */
function failureText(job: IEventsProps['job']): string {
  const cause = job.failure_message || job.failure_reason;
  return job.failure_cure ? `${cause.replace(/\.$/, '')}. ${job.failure_cure}` : cause;
}

function Failure({ job, trans }: Omit<IEventsProps, 'now'>): JSX.Element | null {
  const hosts = job.hosts.filter(host => host.exception ?? host.failure);
  if (!job.failure_reason && hosts.length === 0) {
    return null;
  }
  return (
    <Subsection title={trans.__('Failure')}>
      <p>{failureText(job)}</p>
      {hosts.map(({ host, exception, errors }) => (
        <React.Fragment key={host}>
          {exception ? (
            <pre
              className="jp-smx-traceback"
              role="region"
              aria-label={trans.__('Traceback on %1', host)}
              tabIndex={0}
            >
              {exception.traceback}
            </pre>
          ) : null}
          {errors.map(error => (
            <p key={error}>{error}</p>
          ))}
        </React.Fragment>
      ))}
    </Subsection>
  );
}

function WhyPart({ why, trans }: { why: Why; trans: TranslationBundle }): JSX.Element {
  const titles: Record<Why['start'], string> = {
    warm: trans.__('Why the start was warm'),
    cold: trans.__('Why the start was cold'),
    queued: trans.__('Why the job is waiting'),
    none: trans.__('Why the job is waiting')
  };
  return (
    <Subsection title={titles[why.start]}>
      <p>{why.sentence}</p>
      {why.differences.length > 0 ? (
        <Table
          label={trans.__('Pools that could not be reused')}
          head={[
            trans.__('Pool'),
            trans.__('Field'),
            trans.__('Value in job'),
            trans.__('Value in pool')
          ]}
          rows={why.differences.map(one => [one.pool, one.field, one.wanted, one.found])}
        />
      ) : null}
      {why.notes.map(note => (
        <p key={note}>{note}</p>
      ))}
    </Subsection>
  );
}

/** The moments of a job on the way to its first line and to its verdict, in their order. */
const MOMENTS = [
  'magic',
  'accepted',
  'building',
  'pulling',
  'pulled',
  'built',
  'committed',
  'sent',
  'received',
  'awake',
  'first_line',
  'exited',
  'ended',
  'final'
] as const;

function momentWords(trans: TranslationBundle): Record<(typeof MOMENTS)[number], string> {
  return {
    magic: trans.__('Submitted'),
    accepted: trans.__('Accepted by the controller'),
    building: trans.__('Preparing environment or image'),
    pulling: trans.__('Image download started'),
    pulled: trans.__('Image downloaded'),
    built: trans.__('Environment or image ready'),
    committed: trans.__('Hosts selected'),
    sent: trans.__('Sent to the hosts'),
    received: trans.__('Received by a host'),
    awake: trans.__('Process started'),
    first_line: trans.__('First line ran'),
    exited: trans.__('Code ended'),
    ended: trans.__('Outputs packed'),
    final: trans.__('Result recorded')
  };
}

function StartUp({ job, trans }: Omit<IEventsProps, 'now'>): JSX.Element | null {
  const { timings } = job;
  const known = MOMENTS.filter(name => name in timings).sort((a, b) => timings[a] - timings[b]);
  if (known.length < 2) {
    return null;
  }
  const words = momentWords(trans);
  const begin = timings[known[0]];
  return (
    <Subsection title={trans.__('Timeline')}>
      <Table
        label={trans.__('Timeline of %1', job.name)}
        head={[trans.__('Event'), trans.__('Elapsed'), trans.__('Since previous')]}
        rows={known.map((name, index) => [
          words[name],
          formatDuration(timings[name] - begin, trans),
          index === 0 ? '' : formatDuration(timings[name] - timings[known[index - 1]], trans)
        ])}
      />
    </Subsection>
  );
}

function Attempts({ job, trans }: Omit<IEventsProps, 'now'>): JSX.Element | null {
  if (job.attempts.length === 0) {
    return job.spec.retries === 0 ? null : (
      <Subsection title={trans.__('Attempts')}>
        <DescriptionList
          facts={[
            [trans.__('This attempt'), job.attempt],
            [trans.__('Maximum retries'), job.spec.retries]
          ]}
        />
      </Subsection>
    );
  }
  return (
    <Subsection title={trans.__('Earlier attempts')}>
      <Table
        label={trans.__('Earlier attempts of %1', job.name)}
        head={[trans.__('Attempt'), trans.__('Ended'), trans.__('Duration'), trans.__('Reason')]}
        rows={job.attempts.map(one => [
          one.number,
          <Timestamp at={one.ended_at} />,
          attemptWords(one, trans),
          one.reason
        ])}
      />
    </Subsection>
  );
}

function attemptWords(attempt: Attempt, trans: TranslationBundle): string {
  const seconds = attemptSeconds(attempt);
  return seconds === null ? '' : formatDuration(seconds, trans);
}
