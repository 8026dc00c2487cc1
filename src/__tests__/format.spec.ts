import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { nullTranslator } from '@jupyterlab/translation';

import {
  clock,
  countSentence,
  elapsed,
  endSentence,
  measured,
  remaining,
  spoken,
  startWords,
  stepWords
} from '../format';
import { toastsFor } from '../toast';
import { readCard } from '../snapshot';
import { completed, job, pool } from './examples';

const trans = nullTranslator.load('jupyter_smx');

describe('durations', () => {
  it.each([
    [-3, '00:00'],
    [0.9, '00:00'],
    [59.9, '00:59'],
    [134, '02:14'],
    [3600, '1:00:00'],
    [36_061, '10:01:01']
  ])('%d s stand on a clock as %s', (seconds, shown) => {
    expect(clock(seconds)).toBe(shown);
  });

  it.each([
    [0, '0 seconds'],
    [1, '1 second'],
    [60, '1 minute'],
    [472, '7 minutes 52 seconds'],
    [7260, '2 hours 1 minute']
  ])('%d s are spoken as %s', (seconds, words) => {
    expect(spoken(seconds, trans)).toBe(words);
  });

  it.each([
    [0.0064, '6 ms'],
    [1.94, '1.9 s'],
    [75, '01:15']
  ])('%d s were measured as %s', (seconds, words) => {
    expect(measured(seconds, trans)).toBe(words);
  });

  it('of a job go on until its end and never below zero', () => {
    expect(elapsed(job(0), 1010)).toBe(10);
    expect(elapsed(completed(0), 9999)).toBe(100);
    expect(elapsed(job(0), 900)).toBe(0);
  });

  it('of a pool are unknown while it is in use', () => {
    expect(remaining(pool(0), 1999)).toBe(1);
    expect(remaining(pool(0), 2999)).toBe(0);
    expect(remaining(pool(0, { expires_at: null }), 0)).toBeNull();
  });
});

describe('the step of a job', () => {
  it('is its place in the queue while it waits', () => {
    const queued = job(1, { secondary_status: 'Pending', queue_position: 2 });
    expect(stepWords(queued, trans)).toBe('Queued, position 2');
  });

  it('is called processing for a processing job', () => {
    expect(stepWords(job(1, { kind: 'process' }), trans)).toBe('Processing');
  });

  it('is what it says itself while its environment is built', () => {
    const message = 'Building the environment: Collecting torch.';
    const building = job(1, { secondary_status: 'Pending', start: 'none', message });
    expect(stepWords(building, trans)).toBe(message);
    expect(stepWords({ ...building, start: 'queued' }, trans)).toBe('Pending');
  });

  it('names the exception and the line of a failure', () => {
    const failed = job(1, {
      status: 'Failed',
      secondary_status: 'Failed',
      failure_type: 'KeyError',
      failure_line: 14
    });
    expect(stepWords(failed, trans)).toBe('Failed: KeyError, line 14');
    expect(stepWords({ ...failed, failure_line: null }, trans)).toBe('Failed: KeyError');
    expect(stepWords({ ...failed, failure_type: '' }, trans)).toBe('Failed');
  });

  it('says why a job stopped', () => {
    const over = job(1, { status: 'Stopped', secondary_status: 'MaxRuntimeExceeded' });
    expect(stepWords(over, trans)).toBe('Stopped at its maximum run time');
  });
});

describe('the start of a job', () => {
  it('is said with its time when it is known', () => {
    expect(startWords(job(1, { start: 'warm', first_line_seconds: 0.006 }), trans)).toBe(
      'warm, 6 ms'
    );
    expect(startWords(job(1, { start: 'cold' }), trans)).toBe('cold');
    expect(startWords(job(1, { start: 'queued' }), trans)).toBe('');
  });
});

describe('toasts', () => {
  it('are one for each job as long as they are few', () => {
    const failed = completed(2, {
      status: 'Failed',
      secondary_status: 'Failed',
      failure_type: 'ValueError'
    });
    expect(toastsFor([completed(1), failed], trans)).toEqual([
      { sentence: 'train-digits-1 completed after 01:40', kind: 'success' },
      { sentence: 'train-digits-2: Failed: ValueError', kind: 'error' }
    ]);
  });

  it('are one for all when many end together', () => {
    const many = [1, 2, 3, 4].map(number => completed(number));
    expect(toastsFor(many, trans)).toEqual([
      { sentence: '4 jobs ended: 4 completed, 0 failed, 0 stopped', kind: 'success' }
    ]);
  });

  it('say that a job was stopped', () => {
    const stopped = completed(1, { status: 'Stopped', secondary_status: 'Stopped' });
    expect(endSentence(stopped, trans)).toBe('train-digits-1 was stopped after 01:40');
  });
});

describe('the counts', () => {
  it('are right for one and for many', () => {
    expect(countSentence(1, 2, trans)).toBe('1 job running, 2 pools');
    expect(countSentence(0, 1, trans)).toBe('0 jobs running, 1 pool');
  });
});

describe('a card from a notebook', () => {
  it('is read with its snapshot', () => {
    // As it comes from a file, where it has no type.
    const card = JSON.parse(
      JSON.stringify({ id: 'a', name: 'n', summary: job(1) })
    ) as ReadonlyPartialJSONValue;
    expect(readCard(card)).toEqual({ id: 'a', name: 'n', summary: job(1), array: null });
  });

  it.each([undefined, null, 'text', 3, [], {}, { id: 1, name: 'n' }])('%p is no card', data => {
    expect(readCard(data)).toBeNull();
  });

  it('with half a snapshot has none', () => {
    expect(
      readCard({ id: 'a', name: 'n', summary: { id: 'a', status: 'InProgress' } })?.summary
    ).toBeNull();
  });
});
