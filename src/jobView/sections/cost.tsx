// What a job costs: dollars for each hour, the hours that count, and what its pool adds while it is idle.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Advice, Attempt, Bill } from '../../_types';
import { formatDuration, formatExactMoney, formatPreciseDuration } from '../../format/numbers';
import { isFinal } from '../../state/state';
import type { IJobRecord } from '../jobSource';
import { attemptSeconds, runSeconds, wasInterrupted } from './durations';
import { DescriptionList, Table } from './primitives';

export interface ICostProps {
  job: IJobRecord;
  now: number;
  trans: TranslationBundle;
  /** The findings of the rules, or why there are none; null before the first answer. */
  advice?: Advice[] | string | null;
}

const HOUR = 3600;

export function Cost({ job, now, trans, advice = null }: ICostProps): JSX.Element {
  const { bill, summary } = job;
  const isOver = isFinal(summary);
  const { ran, billed } = isOver
    ? { ran: bill.training_seconds, billed: bill.billable_seconds }
    : soFar(job, now);
  const charged = billed + bill.retained_seconds;
  const sum = priceOf(bill.price_per_hour, charged);
  return (
    <>
      <DescriptionList
        facts={[
          [trans.__('Instances'), summary.instances],
          [trans.__('Price'), rateWords(bill.price_per_hour, trans)],
          [trans.__('Running time'), job.spec.spot ? formatDuration(ran, trans) : ''],
          [trans.__('Billed time'), formatDuration(billed, trans)],
          [
            trans.__('Saved by managed spot'),
            ran > billed ? trans.__('%1 %', ((1 - billed / ran) * 100).toFixed(1)) : ''
          ],
          [
            trans.__('Idle time of pool'),
            job.warm_pool ? formatDuration(bill.retained_seconds, trans) : ''
          ],
          // An older server has no accounts of platforms.
          [trans.__('Accounted by the platform'), bill.platform_usage ?? ''],
          [isOver ? trans.__('Cost') : trans.__('Cost so far'), sumWords(sum, trans)],
          [trans.__('Cost per step'), stepWords(job, trans)]
        ]}
      />
      <Groups bill={bill} charged={charged} trans={trans} />
      <p>{priceWords(bill, trans)}</p>
      {job.warm_pool?.status === 'Available' ? (
        <p>
          {trans.__(
            'The pool is still warm. Its idle time is added when it is reused or released.'
          )}
        </p>
      ) : null}
      <AdviceOnJob advice={advice} trans={trans} />
    </>
  );
}

interface IGroupsProps {
  bill: Bill;
  /** Seconds that each of its hosts is billed for. */
  charged: number;
  trans: TranslationBundle;
}

/** The shares of the groups of a heterogeneous cluster in price and sum. */
function Groups({ bill, charged, trans }: IGroupsProps): JSX.Element | null {
  if (bill.groups.length < 2) {
    return null;
  }
  const head = [
    trans.__('Group'),
    trans.__('Instances'),
    trans.__('Price'),
    trans.__('Cost'),
    trans.__('Helps')
  ];
  const rows = bill.groups.map(group => [
    group.name,
    `${group.instance_type} × ${group.instance_count}`,
    rateWords(group.price_per_hour, trans),
    sumWords(priceOf(group.price_per_hour, charged), trans),
    group.until
  ]);
  return <Table label={trans.__('Cost per group')} head={head} rows={rows} />;
}

function priceOf(rate: number | null, seconds: number): number | null {
  return rate === null ? null : (rate * seconds) / HOUR;
}

function rateWords(rate: number | null, trans: TranslationBundle): string {
  return rate === null ? trans.__('unknown') : trans.__('%1 per hour', formatExactMoney(rate));
}

function sumWords(sum: number | null, trans: TranslationBundle): string {
  return sum === null ? trans.__('unknown') : formatExactMoney(sum);
}

/** How the job could run better: rules of SageMaker's profiler, with their numbers and predictions. */
function AdviceOnJob(props: Pick<ICostProps, 'advice' | 'trans'>): JSX.Element | null {
  const { advice, trans } = props;
  if (!advice || advice.length === 0) {
    return null;
  }
  if (typeof advice === 'string') {
    return <p>{trans.__('Recommendations are not available: %1', advice)}</p>;
  }
  return (
    <section aria-label={trans.__('Advice')}>
      <h3>{trans.__('Advice')}</h3>
      {advice.map(one => (
        <p key={`${one.host} ${one.rule}`}>{`${one.sentence} ${one.prediction}`.trim()}</p>
      ))}
    </section>
  );
}

/**
 * Return the seconds that a job without a verdict ran and is billed for, up to now. They are counted from a moment of
 * the server, which it moves when the clock is set.
 *
 * Between two runs nothing is billed, and nothing is counted.
 */
function soFar(job: IJobRecord, now: number): { ran: number; billed: number } {
  const { bill, attempts } = job;
  const seconds = runSeconds(job, now);
  if (seconds === null) {
    return { ran: bill.training_seconds, billed: bill.billable_seconds };
  }
  // A run whose spot instances were interrupted is not billed. What was lost is added to what is billed, so that the
  // two differ by that alone, and not by rounding.
  const sumOf = (some: readonly Attempt[]): number =>
    some.reduce((sum, one) => sum + (attemptSeconds(one) ?? 0), 0);
  const wasTaken = wasInterrupted(job);
  const billed = sumOf(attempts.filter(one => !one.interrupted)) + (wasTaken ? 0 : seconds);
  const lost = sumOf(attempts.filter(one => one.interrupted)) + (wasTaken ? seconds : 0);
  return { ran: billed + lost, billed };
}

function priceWords({ price_per_hour: rate, groups }: Bill, trans: TranslationBundle): string {
  if (rate === null) {
    const unknown = groups.filter(group => group.price_per_hour === null);
    const types = [...new Set(unknown.map(group => group.instance_type))].join(', ');
    return trans.__(
      'The catalog has no price for %1. An administrator can set one with c.ControllerApp.prices.',
      types
    );
  }
  return rate === 0
    ? trans.__('Instances on this machine are free.')
    : trans.__('On-demand prices of the catalog, for all hosts together.');
}

/** Return what a step costs, with its unit, while steps are counted; empty if the job counts none. */
function stepWords({ bill }: IJobRecord, trans: TranslationBundle): string {
  if (bill.step_seconds === null) {
    return '';
  }
  const took = formatPreciseDuration(bill.step_seconds, trans);
  return bill.cost_per_step === null
    ? trans.__('unknown, %1 per step', took)
    : trans.__('%1 per step of %2', formatExactMoney(bill.cost_per_step), took);
}
