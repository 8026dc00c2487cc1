// What a job costs: dollars for each hour, the hours that count, and what its pool adds while it stands idle.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Advice } from '../_types';
import { measured, money, spoken } from '../format';
import { isFinal } from '../state';
import { attemptSeconds, countedSeconds } from './counted';
import { Facts } from './parts';
import type { IJobRecord } from './source';

export interface ICostProps {
  job: IJobRecord;
  now: number;
  trans: TranslationBundle;
  /** What the rules found, or why nobody can say; null before anybody answered. */
  advice?: Advice[] | string | null;
}

const HOUR = 3600;

export function Cost({ job, now, trans, advice = null }: ICostProps): JSX.Element {
  const { bill, summary, spec } = job;
  const isOver = isFinal(summary);
  const seconds = isOver ? bill.billable_seconds : soFar(job, now);
  const rate = bill.price_per_hour;
  const sum = rate === null ? null : (rate * (seconds + bill.retained_seconds)) / HOUR;
  const types = [...new Set(spec.instance_groups.map(group => group.instance_type))].join(', ');
  return (
    <>
      <Facts
        facts={[
          [trans.__('Instances'), summary.instances],
          [
            trans.__('Price'),
            rate === null ? trans.__('not known') : trans.__('%1 an hour', exact(rate))
          ],
          [trans.__('Running time'), runningWords(job, trans)],
          [trans.__('Billed time'), spoken(seconds, trans)],
          [
            trans.__('Idle time of its pool'),
            job.warm_pool ? spoken(bill.retained_seconds, trans) : ''
          ],
          [
            isOver ? trans.__('Cost') : trans.__('Cost so far'),
            sum === null ? trans.__('not known') : exact(sum)
          ],
          [trans.__('Cost of a step'), stepWords(job, trans)]
        ]}
      />
      <p>{priceWords(rate, types, trans)}</p>
      {job.warm_pool?.status === 'Available' ? (
        <p>
          {trans.__(
            'Its pool is kept warm: what it stands idle is added when it ends or is taken.'
          )}
        </p>
      ) : null}
      <AdviceOnJob advice={advice} trans={trans} />
    </>
  );
}

/** What a spot job ran and what it is billed for differ, once it was interrupted; of others they are one. */
function runningWords({ bill, spec, summary }: IJobRecord, trans: TranslationBundle): string {
  return spec.spot && isFinal(summary) ? spoken(bill.training_seconds, trans) : '';
}

/** How the job could run better: rules of SageMaker's profiler, with their numbers and what they predict. */
function AdviceOnJob(props: Pick<ICostProps, 'advice' | 'trans'>): JSX.Element | null {
  const { advice, trans } = props;
  if (!advice || advice.length === 0) {
    return null;
  }
  if (typeof advice === 'string') {
    return <p>{trans.__('Whether it could run better is not known: %1', advice)}</p>;
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
 * Seconds that a running job is billed for now: by what the server counts from, which moves along when a clock is set.
 *
 * Between two runs nobody pays, and then nothing is counted from.
 */
function soFar(job: IJobRecord, now: number): number {
  const seconds = countedSeconds(job, now);
  if (seconds === null) {
    return job.bill.billable_seconds;
  }
  // Nobody pays for a run whose spot instances were taken back.
  const paid = job.attempts.filter(one => !one.interrupted);
  return paid.reduce((sum, one) => sum + (attemptSeconds(one) ?? 0), seconds);
}

function priceWords(rate: number | null, types: string, trans: TranslationBundle): string {
  if (rate === null) {
    return trans.__(
      'The catalogue has no price for %1. An administrator sets one with c.ControllerApp.prices.',
      types
    );
  }
  return rate === 0
    ? trans.__('A share of this machine costs nothing.')
    : trans.__('Prices are those of the catalogue, on demand, for all hosts together.');
}

/** What a step costs while steps are done, with its unit; empty where the job counts none. */
function stepWords({ bill }: IJobRecord, trans: TranslationBundle): string {
  if (bill.step_seconds === null) {
    return '';
  }
  const took = measured(bill.step_seconds, trans);
  return bill.cost_per_step === null
    ? trans.__('not known, at %1 each', took)
    : trans.__('%1 per step, at %2 each', digits(bill.cost_per_step), took);
}

/** Dollars with three digits that count, however little it is, and never in powers of ten. */
function digits(dollars: number): string {
  const places = dollars > 0 && dollars < 1 ? Math.min(20, 2 - Math.floor(Math.log10(dollars))) : 2;
  return `$${dollars.toFixed(places)}`;
}

/** Dollars with as many digits as a job of seconds needs. */
function exact(dollars: number): string {
  if (dollars > 0 && dollars < 0.0001) {
    return '< $0.0001';
  }
  return dollars > 0 && dollars < 1 ? `$${Number(dollars.toPrecision(2))}` : money(dollars);
}
