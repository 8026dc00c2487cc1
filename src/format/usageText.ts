// What a job uses of its hosts, in words: each core and each GPU that is fully used is 100 %, as SageMaker counts.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary, Usage } from '../_types';
import { isFinal } from '../state/state';
import { formatSize } from './numbers';

export interface IUsageText {
  of: 'cpu' | 'memory' | 'gpu';
  words: string;
}

/** Return what a running job uses now, or the maximum of a finished one; empty if nothing was measured. */
export function formatUsage(job: JobSummary, trans: TranslationBundle): IUsageText[] {
  return isFinal(job)
    ? figures(job.peak, trans).map(({ of, words }) => ({ of, words: trans.__('peak %1', words) }))
    : figures(job.usage, trans);
}

// A card that an older version saved has no such field.
function figures(usage: Usage | null | undefined, trans: TranslationBundle): IUsageText[] {
  const { cpu_percent: cpu, memory_bytes: memory, gpu_percent: gpu } = usage ?? NOTHING;
  const known: IUsageText[] = [
    { of: 'cpu', words: cpu === null ? '' : trans.__('CPU %1 %', Math.round(cpu)) },
    {
      of: 'memory',
      words: memory === null ? '' : trans.__('memory %1', formatSize(memory, trans))
    },
    { of: 'gpu', words: gpu === null ? '' : trans.__('GPU %1 %', Math.round(gpu)) }
  ];
  return known.filter(({ words }) => words !== '');
}

const NOTHING = { cpu_percent: null, memory_bytes: null, gpu_percent: null };

/** Read a usage that a notebook saved, in which any value is possible; null if it is not one. */
export function parseUsage(value: unknown): Usage | null {
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const fields = value as Record<string, unknown>;
  const number = (name: keyof Usage): number | null =>
    typeof fields[name] === 'number' ? fields[name] : null;
  return {
    cpu_percent: number('cpu_percent'),
    memory_bytes: number('memory_bytes'),
    gpu_percent: number('gpu_percent'),
    gpu_memory_bytes: number('gpu_memory_bytes'),
    cpu_seconds: number('cpu_seconds')
  };
}
