import { nullTranslator } from '@jupyterlab/translation';
import React from 'react';

import type { Bill, Attempt, SecondaryStatus, Transition } from '../../_types';
import { Cost } from '../../jobView/sections/cost';
import { job } from '../fixtures/examples';
import { mount } from '../fixtures/elements';
import { record, SPEC } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

const ATTEMPT: Attempt = {
  number: 1,
  cluster: 'c',
  reason: 'its host was lost',
  ended_at: 9,
  started_at: 0,
  hosts: [],
  ran_seconds: null,
  interrupted: false
};

describe('the cost of a job', () => {
  it('is the price of all hosts over the billed time', async () => {
    const node = await mount(<Cost job={record()} now={5000} trans={trans} />);
    expect(node.textContent).toContain('$0.23 per hour');
    expect(node.textContent).toContain('1 min 40 s');
    expect(node.textContent).toContain('Cost$0.00639');
  });

  it('has what the platform accounted, and nothing from an older server', async () => {
    const sentence = 'Slurm job 7: COMPLETED, 1 min';
    const plain = record();
    const text = async (bill: Bill): Promise<string> => {
      const node = await mount(<Cost job={{ ...plain, bill }} now={5000} trans={trans} />);
      return node.textContent ?? '';
    };
    expect(await text({ ...plain.bill, platform_usage: sentence })).toContain(
      `Accounted by the platform${sentence}`
    );
    const older = { ...plain.bill, platform_usage: undefined } as unknown as Bill;
    for (const bill of [plain.bill, older]) {
      expect(await text(bill)).not.toContain('Accounted');
    }
  });

  it('grows while the job runs', async () => {
    const running = record({ summary: job(0), ended_at: null });
    const node = await mount(<Cost job={running} now={1000 + 3600} trans={trans} />);
    expect(node.textContent).toContain('Cost so far$0.23');
  });

  it.each([
    ['counts by no clock that was set', [], 1000 + 3600, '$0.23'],
    ['adds the runs before, and not what lies between', [3600], 1000 + 3600, '$0.46'],
    ['does not add a run that was interrupted', [3600], 1000 + 3600, '$0.23', true],
    ['is what the server says while no run is under way', [3600], null, '$0.00639']
  ])('%s', async (_, before, counted_from, sum, interrupted = false) => {
    const attempts = before.map(ran_seconds => ({ ...ATTEMPT, ran_seconds, interrupted }));
    const running = { summary: job(0), ended_at: null, attempts, counted_from };
    const node = await mount(<Cost job={record(running)} now={1000 + 7200} trans={trans} />);
    expect(node.textContent).toContain(`Cost so far${sum}`);
  });

  it.each([
    ['Training', [], '$0.23'],
    ['Training', ['Interrupted'], '$0.00'],
    ['Training', ['Interrupted', 'Stopping'], '$0.00'],
    ['Training', ['Interrupted', 'Starting', 'Training'], '$0.23']
  ] as const)('counts of %s %s what was left to itself', async (first, others, sum) => {
    const at = (status: SecondaryStatus): Transition => ({
      status,
      start_time: 1000,
      end_time: null,
      status_message: ''
    });
    const transitions = (['Starting', first, ...others] as SecondaryStatus[]).map(at);
    const spec = { ...SPEC, spot: true };
    const running = {
      summary: job(0),
      state: 'Training',
      ended_at: null,
      transitions,
      spec
    } as const;
    const node = await mount(<Cost job={record(running)} now={1000 + 3600} trans={trans} />);
    expect(node.textContent).toContain('Running time1 h');
    expect(node.textContent).toContain(`Cost so far${sum}`);
    expect(node.textContent?.includes('Saved by managed spot100.0 %')).toBe(sum === '$0.00');
  });

  it('shows no savings if nothing was lost, however the sums are rounded', async () => {
    const attempts = [0.1, 0.4].map(ran_seconds => ({ ...ATTEMPT, ran_seconds }));
    const running = {
      summary: job(0),
      state: 'Training',
      ended_at: null,
      counted_from: 0,
      attempts,
      spec: { ...SPEC, spot: true }
    } as const;
    const node = await mount(<Cost job={record(running)} now={0.1} trans={trans} />);
    expect(node.textContent).toContain('Running time');
    expect(node.textContent).not.toContain('Saved by managed spot');
  });

  it('says of a finished spot job how long it ran, and what spot saved', async () => {
    const bill = { ...record().bill, training_seconds: 500 };
    const spec = { ...SPEC, spot: true };
    const node = await mount(<Cost job={record({ bill, spec })} now={0} trans={trans} />);
    expect(node.textContent).toContain('Running time8 min 20 s');
    expect(node.textContent).toContain('Saved by managed spot80.0 %');
  });

  it('has a row for each group, and their sum is the job', async () => {
    const group = { instance_count: 2, cost: null, until: '' };
    const groups = [
      {
        ...group,
        name: 'data',
        instance_type: 'ml.c5.9xlarge',
        price_per_hour: 3.672,
        until: 'dnn'
      },
      { ...group, name: 'dnn', instance_type: 'ml.p3.2xlarge', price_per_hour: 7.65 }
    ];
    const bill = { ...record().bill, price_per_hour: 11.322, billable_seconds: 3600, groups };
    const node = await mount(<Cost job={record({ bill })} now={0} trans={trans} />);
    const rows = [...node.querySelectorAll('tbody tr')].map(row =>
      [...row.children].map(cell => cell.textContent).join('|')
    );
    expect(rows).toEqual([
      'data|ml.c5.9xlarge × 2|$3.67 per hour|$3.67|dnn',
      'dnn|ml.p3.2xlarge × 2|$7.65 per hour|$7.65|'
    ]);
    expect(node.textContent).toContain('Cost$11.32');
    const one = await mount(<Cost job={record()} now={0} trans={trans} />);
    expect(one.querySelector('table')).toBeNull();
  });

  it('says what a step costs, with its unit, if the job counts steps', async () => {
    expect((await mount(<Cost job={record()} now={0} trans={trans} />)).textContent).not.toContain(
      'step'
    );
    const bill = { ...record().bill, steps: 500, step_seconds: 0.086, cost_per_step: 0.00107576 };
    const node = await mount(<Cost job={record({ bill })} now={0} trans={trans} />);
    expect(node.textContent).toContain('Cost per step$0.00108 per step of 86 ms');
    const unknown = { ...bill, price_per_hour: null, cost: null, cost_per_step: null };
    const other = await mount(<Cost job={record({ bill: unknown })} now={0} trans={trans} />);
    expect(other.textContent).toContain('Cost per stepunknown, 86 ms per step');
  });

  it('comes with the findings and predictions of the rules, or why there are none', async () => {
    const found = { rule: 'CPUBottleneck', host: 'algo-1', sentence: 'It waits.', numbers: {} };
    const advice = [{ ...found, prediction: 'Feed it.' }];
    const node = await mount(<Cost job={record()} now={0} trans={trans} advice={advice} />);
    expect(node.querySelector('section[aria-label=Advice]')?.textContent).toBe(
      'AdviceIt waits. Feed it.'
    );
    const none = await mount(<Cost job={record()} now={0} trans={trans} advice={[]} />);
    expect(none.textContent).not.toContain('Advice');
    const away = await mount(<Cost job={record()} now={0} trans={trans} advice="It is away." />);
    expect(away.textContent).toContain('Recommendations are not available: It is away.');
  });

  it('is unknown without a price, and never zero', async () => {
    const groups = record().bill.groups.map(group => ({ ...group, price_per_hour: null }));
    const known = { price_per_hour: null, billable_seconds: 9, cost: null, groups };
    const bill = { ...record().bill, ...known };
    const node = await mount(<Cost job={record({ bill })} now={0} trans={trans} />);
    expect(node.textContent).toContain('Costunknown');
    expect(node.textContent).toContain('no price for ml.m5.large');
    expect(node.textContent).not.toContain('$');
  });
});
