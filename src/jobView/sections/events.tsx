// What happened to a job: its steps, why it began warm or cold, the way to its first line, and its earlier runs.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Attempt, Transition, Why } from '../../_types';
import { formatStep } from '../../format/jobText';
import { formatDuration } from '../../format/numbers';
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
          <p>{job.exit_message}</p>
        </Subsection>
      ) : null}
      {job.why ? <WhyPart why={job.why} trans={trans} /> : null}
      <Subsection title={trans.__('Steps')}>
        <Table
          label={trans.__('Steps of %1', job.name)}
          head={[trans.__('Step'), trans.__('Began'), trans.__('Took'), trans.__('Message')]}
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
        'The clock was set meanwhile, so steps look longer or shorter than they were. Counted without it, the hosts worked for %1.',
        formatDuration(seconds, trans)
      )}
    </p>
  );
}

function Failure({ job, trans }: Omit<IEventsProps, 'now'>): JSX.Element | null {
  const hosts = job.hosts.filter(host => host.exception ?? host.failure);
  if (!job.failure_reason && hosts.length === 0) {
    return null;
  }
  return (
    <Subsection title={trans.__('Failure')}>
      <p>{job.failure_message || job.failure_reason}</p>
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
    warm: trans.__('Why it began warm'),
    cold: trans.__('Why it began cold'),
    queued: trans.__('Why it waits'),
    none: trans.__('Why it waits')
  };
  return (
    <Subsection title={titles[why.start]}>
      <p>{why.sentence}</p>
      {why.differences.length > 0 ? (
        <Table
          label={trans.__('Pools that could not be taken')}
          head={[
            trans.__('Pool'),
            trans.__('Field that differed'),
            trans.__('This job'),
            trans.__('The pool')
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
    magic: trans.__('It was asked for'),
    accepted: trans.__('The controller took the job'),
    building: trans.__('Its environment, or its image, began to be prepared'),
    pulling: trans.__('The download of its image began'),
    pulled: trans.__('Its image was downloaded'),
    built: trans.__('Its environment, or its image, was ready'),
    committed: trans.__('Its hosts were chosen'),
    sent: trans.__('It was sent to its hosts'),
    received: trans.__('A host received it'),
    awake: trans.__('Its process was awake'),
    first_line: trans.__('Its first line ran'),
    exited: trans.__('Its code ended'),
    ended: trans.__('Its outputs were packed'),
    final: trans.__('Its verdict was written')
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
    <Subsection title={trans.__('Way to the first line and to the end')}>
      <Table
        label={trans.__('Moments of %1', job.name)}
        head={[trans.__('Moment'), trans.__('After'), trans.__('Since the one before')]}
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
      <Subsection title={trans.__('Runs')}>
        <DescriptionList
          facts={[
            [trans.__('This run'), job.attempt],
            [trans.__('Retries that are allowed'), job.spec.retries]
          ]}
        />
      </Subsection>
    );
  }
  return (
    <Subsection title={trans.__('Runs before this one')}>
      <Table
        label={trans.__('Earlier runs of %1', job.name)}
        head={[trans.__('Run'), trans.__('Ended'), trans.__('Took'), trans.__('Reason')]}
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
