import { nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import React from 'react';

import type { JobSummary, Usage } from '../../_types';
import { JobMetrics } from '../../components/jobProgress';
import { formatUsage, parseUsage } from '../../format/usageText';
import { parseCard } from '../../notebook/cardSnapshot';
import { completed, job } from '../fixtures/examples';
import { waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');
const usage: Usage = {
  cpu_percent: 186.4,
  memory_bytes: 1_234_000_000,
  gpu_percent: null,
  gpu_memory_bytes: null,
  cpu_seconds: null
};

const usageWords = (of: JobSummary): string[] => formatUsage(of, trans).map(({ words }) => words);

describe('what a job uses', () => {
  it('is shown with its units, and without what was not measured', () => {
    expect(usageWords(job(1, { usage }))).toEqual(['CPU 186 %', 'memory 1.1 GiB']);
    expect(usageWords(job(1, { usage: { ...usage, gpu_percent: 0 } }))[2]).toBe('GPU 0 %');
    expect(usageWords(job(1))).toEqual([]);
  });

  it('is the maximum when the job is over', () => {
    const done = completed(1, { usage, peak: { ...usage, cpu_percent: 200, memory_bytes: null } });
    expect(usageWords(done)).toEqual(['peak CPU 200 %']);
  });

  it('is a named group, whose text is read aloud while the bars beside it are not', async () => {
    const trend = { cpu: [50, 186.4], gpu: [] };
    const widget = ReactWidget.create(
      <JobMetrics job={job(1, { usage, metrics: { loss: 0.5 } })} trend={trend} trans={trans} />
    );
    Widget.attach(widget, document.body);
    await waitForRender();
    const group = widget.node.firstElementChild;
    expect(group?.getAttribute('role')).toBe('group');
    expect(group?.getAttribute('aria-label')).toBe('Metrics of train-digits-1');
    expect(group?.textContent).toBe('CPU 186 % · memory 1.1 GiB · loss 0.5');
    // A line may break between two figures, but not between a number and its unit.
    const whole = [...(group?.querySelectorAll('.jp-smx-word') ?? [])].map(one => one.textContent);
    expect(whole).toEqual(['CPU 186 %', 'memory 1.1 GiB', 'loss 0.5']);
    const [bars, ...others] = [...(group?.querySelectorAll('svg') ?? [])];
    expect(others).toEqual([]);
    expect(bars.getAttribute('aria-hidden')).toBe('true');
    expect([...bars.querySelectorAll('rect')].map(bar => bar.getAttribute('height'))).toEqual([
      '1',
      String(500 / 186.4),
      '10'
    ]);
    expect(JobMetrics({ job: job(1), trans })).toBeNull();
  });

  it('is read from a notebook that may have any value', () => {
    expect(parseUsage(undefined)).toBeNull();
    expect(parseUsage({ cpu_percent: '<b>', memory_bytes: 3 })).toEqual({
      cpu_percent: null,
      memory_bytes: 3,
      gpu_percent: null,
      gpu_memory_bytes: null,
      cpu_seconds: null
    });
    const saved = { id: '1', name: 'x', summary: job(1, { usage, peak: usage }) };
    const summary = parseCard(saved as unknown as ReadonlyPartialJSONObject)?.summary;
    expect([summary?.usage, summary?.peak]).toEqual([null, usage]);
  });
});
