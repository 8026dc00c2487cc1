import { nullTranslator } from '@jupyterlab/translation';

import {
  formatExpectedDuration,
  formatExpectedStart,
  formatMetrics,
  formatProgress,
  progressPercent
} from '../../format/progressText';
import { completed, job } from '../fixtures/examples';

const trans = nullTranslator.load('jupyter_smx');
const halfway = { fraction: 0.999, text: '999/1000', remaining_seconds: null, at: 1 };

describe('progress', () => {
  it('is not complete before it is', () => {
    expect(progressPercent(job(1, { progress: halfway }))).toBe(99);
  });

  it('is the number that the job said, of each whole percent', () => {
    const said = (fraction: number): number | null =>
      progressPercent(job(1, { progress: { ...halfway, fraction } }));
    const all = Array.from({ length: 101 }, (_, number) => number);
    expect(all.map(number => said(number / 100))).toEqual(all);
  });

  it('ends with the job', () => {
    const done = completed(1, { progress: halfway });
    expect(progressPercent(done)).toBeNull();
    expect(formatProgress(done)).toBe('');
  });

  it('is unknown where the job says nothing', () => {
    expect(progressPercent(job(1))).toBeNull();
    expect(formatExpectedDuration(job(1), trans)).toBe('');
    expect(formatExpectedStart(job(1), 0, trans)).toBe('');
  });
});

describe('a waiting job', () => {
  it('is not promised a beginning that is over', () => {
    expect(formatExpectedStart(job(1, { expected_start_at: 100 }), 99, trans)).toBe(
      'starts in ~1 s'
    );
    expect(formatExpectedStart(job(1, { expected_start_at: 100 }), 101, trans)).toBe('');
  });
});

describe('metrics', () => {
  it('are a few, rounded, and say when they are no number', () => {
    const metrics = { step: 123_456, acc: null, lr: 0.0000123456, more: 1 };
    expect(formatMetrics(job(1, { metrics }), trans)).toEqual([
      'step 123456',
      'acc nan',
      'lr 1.23e-5',
      '…'
    ]);
  });
});
