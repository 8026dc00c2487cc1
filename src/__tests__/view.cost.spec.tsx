import { nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import React from 'react';

import { Cost } from '../view/cost';
import { job } from './examples';
import { rendered } from './fakes';
import { record } from './records';

const trans = nullTranslator.load('jupyter_smx');

async function drawn(element: JSX.Element): Promise<HTMLElement> {
  const widget = ReactWidget.create(element);
  Widget.attach(widget, document.body);
  await rendered();
  return widget.node;
}

describe('the cost of a job', () => {
  it('is the price of all hosts over the time that counts', async () => {
    const node = await drawn(<Cost job={record()} now={5000} trans={trans} />);
    expect(node.textContent).toContain('$0.23 an hour');
    expect(node.textContent).toContain('1 minute 40 seconds');
    expect(node.textContent).toContain('Cost$0.0064');
  });

  it('grows while the job runs', async () => {
    const running = record({ summary: job(0), ended_at: null });
    const node = await drawn(<Cost job={running} now={1000 + 3600} trans={trans} />);
    expect(node.textContent).toContain('Cost so far$0.23');
  });

  it.each([
    ['counts by no clock that was set', [], 1000 + 3600, '$0.23'],
    ['adds the runs before, and not what lies between', [3600], 1000 + 3600, '$0.46'],
    ['does not add a run that was interrupted', [3600], 1000 + 3600, '$0.23', true],
    ['is what the server says while no run is under way', [3600], null, '$0.0064']
  ])('%s', async (_, before, counted_from, sum, interrupted = false) => {
    const attempts = before.map(ran_seconds => ({
      number: 1,
      cluster: '',
      reason: '',
      hosts: [],
      started_at: 0,
      ended_at: 9,
      ran_seconds,
      interrupted
    }));
    const running = { summary: job(0), ended_at: null, attempts, counted_from };
    const node = await drawn(<Cost job={record(running)} now={1000 + 7200} trans={trans} />);
    expect(node.textContent).toContain(`Cost so far${sum}`);
  });

  it('says what a step costs, with its unit, where the job counts steps', async () => {
    expect((await drawn(<Cost job={record()} now={0} trans={trans} />)).textContent).not.toContain(
      'step'
    );
    const bill = { ...record().bill, steps: 500, step_seconds: 0.086, cost_per_step: 0.00107576 };
    const node = await drawn(<Cost job={record({ bill })} now={0} trans={trans} />);
    expect(node.textContent).toContain('Cost of a step$0.00108 per step, at 86 ms each');
    const unknown = { ...bill, price_per_hour: null, cost: null, cost_per_step: null };
    const other = await drawn(<Cost job={record({ bill: unknown })} now={0} trans={trans} />);
    expect(other.textContent).toContain('Cost of a stepnot known, at 86 ms each');
  });

  it('comes with what the rules found and predict, or why nobody knows', async () => {
    const found = { rule: 'CPUBottleneck', host: 'algo-1', sentence: 'It waits.', numbers: {} };
    const advice = [{ ...found, prediction: 'Feed it.' }];
    const node = await drawn(<Cost job={record()} now={0} trans={trans} advice={advice} />);
    expect(node.querySelector('section[aria-label=Advice]')?.textContent).toBe(
      'AdviceIt waits. Feed it.'
    );
    const none = await drawn(<Cost job={record()} now={0} trans={trans} advice={[]} />);
    expect(none.textContent).not.toContain('Advice');
    const away = await drawn(<Cost job={record()} now={0} trans={trans} advice="It is away." />);
    expect(away.textContent).toContain('could run better is not known: It is away.');
  });

  it('is not known without a price, and never zero', async () => {
    const bill = { ...record().bill, price_per_hour: null, billable_seconds: 9, cost: null };
    const node = await drawn(<Cost job={record({ bill })} now={0} trans={trans} />);
    expect(node.textContent).toContain('Costnot known');
    expect(node.textContent).toContain('no price for ml.m5.large');
    expect(node.textContent).not.toContain('$');
  });
});
