import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { nullTranslator } from '@jupyterlab/translation';

import type { JobSummary, PoolSummary } from '../../_types';
import {
  elapsedSeconds,
  formatAllocation,
  formatCounts,
  formatEngine,
  formatImage,
  formatJobEnd,
  formatOtherEngine,
  formatPreparation,
  formatRemark,
  formatStart,
  formatStep,
  idleNodeHours,
  remainingSeconds
} from '../../format/jobText';
import {
  formatClock,
  formatExactMoney,
  formatNodeHours,
  formatSpokenDuration,
  formatMoney
} from '../../format/numbers';
import { parseCard } from '../../notebook/cardSnapshot';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job, pool } from '../fixtures/examples';

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
    expect(formatClock(seconds)).toBe(shown);
  });

  it.each([
    [0, '0 seconds'],
    [1, '1 second'],
    [60, '1 minute'],
    [472, '7 minutes 52 seconds'],
    [7260, '2 hours 1 minute']
  ])('%d s are spoken as %s', (seconds, words) => {
    expect(formatSpokenDuration(seconds, trans)).toBe(words);
  });

  it('of a job go on until its end and never below zero', () => {
    expect(elapsedSeconds(job(0), 1010)).toBe(10);
    expect(elapsedSeconds(completed(0), 9999)).toBe(100);
    expect(elapsedSeconds(job(0), 900)).toBe(0);
  });

  it('of a pool are unknown while it is in use', () => {
    expect(remainingSeconds(pool(0), 1999)).toBe(1);
    expect(remainingSeconds(pool(0), 2999)).toBe(0);
    expect(remainingSeconds(pool(0, { expires_at: null }), 0)).toBeNull();
  });

  it('of a pool end with the allocation of its hosts, also where an older server names none', () => {
    expect(remainingSeconds(pool(0, { allocation_ends_at: 1990 }), 1980)).toBe(10);
    expect(remainingSeconds(pool(0, { allocation_ends_at: 2990 }), 1980)).toBe(20);
    const older = pool(0, { allocation_ends_at: undefined });
    expect(remainingSeconds(older, 1980)).toBe(20);
    expect(formatAllocation(older, 0, trans)).toBe('');
  });

  it.each([
    [null, ''],
    [2500, 'allocation ends in 25 min'],
    [1000, 'allocation is over']
  ])('of an allocation that ends at %p are said as %p', (end, words) => {
    expect(formatAllocation(pool(0, { allocation_ends_at: end }), 1000, trans)).toBe(words);
  });
});

describe('the idle time of an allocation', () => {
  it.each([
    [2, 0.5],
    [0, 0]
  ])('of %p nodes is %p node hours, and grows while no job uses the pool', (nodes, hours) => {
    const known = { ...pool(0, { nodes, idle_seconds: 900 }), reported_at: 1000 };
    expect(idleNodeHours(known, 1000)).toBe(hours);
    expect(idleNodeHours(known, 2800)).toBe(3 * hours);
    expect(idleNodeHours({ ...known, expires_at: null }, 2800)).toBe(hours);
  });

  it('of an older server has none', () => {
    const older = { ...pool(0, { idle_seconds: 900 }), nodes: undefined } as unknown as PoolSummary;
    expect(idleNodeHours(older, 0)).toBe(0);
  });

  it.each([
    [0.001, '< 0.01 node hours'],
    [1.5, '1.50 node hours']
  ])('%p is written as %p', (hours, words) => {
    expect(formatNodeHours(hours, trans)).toBe(words);
  });
});

describe('the step of a job', () => {
  it('is its place in the queue while it waits', () => {
    const queued = job(1, { secondary_status: 'Pending', queue_position: 2 });
    expect(formatStep(queued, trans)).toBe('Queued, position 2');
  });

  it('is called processing for a processing job', () => {
    expect(formatStep(job(1, { kind: 'process' }), trans)).toBe('Processing');
  });

  it('is what it says itself while its environment is built', () => {
    const message = 'Building the environment: Collecting torch.';
    const building = job(1, { secondary_status: 'Pending', start: 'none', message });
    expect(formatStep(building, trans)).toBe(message);
    expect(formatStep({ ...building, start: 'queued' }, trans)).toBe('Pending');
  });

  it('names the exception and the line of a failure', () => {
    const failed = job(1, {
      status: 'Failed',
      secondary_status: 'Failed',
      failure_type: 'KeyError',
      failure_line: 14
    });
    expect(formatStep(failed, trans)).toBe('Failed: KeyError, line 14');
    expect(formatStep({ ...failed, failure_line: null }, trans)).toBe('Failed: KeyError');
    const told = { ...failed, failure_type: '' };
    expect(formatStep(told, trans)).toBe('Failed');
    const ours = { ...told, message: 'ClientError: channel train: there is no such file.' };
    expect(formatStep(ours, trans)).toBe('Failed: ClientError');
  });

  it('says why a job stopped', () => {
    const over = job(1, { status: 'Stopped', secondary_status: 'MaxRuntimeExceeded' });
    expect(formatStep(over, trans)).toBe('Stopped at maximum run time');
    const waited = { ...over, secondary_status: 'MaxWaitTimeExceeded' as const };
    expect(formatStep(waited, trans)).toBe('Stopped at maximum wait time');
  });

  it('says that hosts were taken back and not that the job ended', () => {
    const taken = job(1, { secondary_status: 'Interrupted' });
    expect(formatStep(taken, trans)).toBe('Interrupted: spot instances reclaimed');
  });
});

describe('the start of a job', () => {
  it('is said with its time when it is known', () => {
    expect(formatStart(job(1, { start: 'warm', first_line_seconds: 0.006 }), trans)).toBe(
      'warm start 6 ms'
    );
    expect(formatStart(job(1, { start: 'cold' }), trans)).toBe('cold start');
    expect(formatStart(job(1, { start: 'queued' }), trans)).toBe('');
  });
});

describe('the remark on a job', () => {
  it('says that it waits for a disk', () => {
    const message = 'It waits for a disk of its host. The disk of /tmp is full.';
    expect(formatRemark(job(1, { message }), trans)).toBe(message);
  });

  it('says what a job lost that completed, and of others nothing', () => {
    const message = "The job completed, but 'x' could not be kept: No space left on device.";
    expect(formatRemark(completed(1, { message }), trans)).toBe(message);
    expect(formatRemark(completed(1, { message: 'The job completed.' }), trans)).toBe('');
    expect(formatRemark(completed(1, { status: 'Failed', message }), trans)).toBe('');
  });
});

describe('the end of a job', () => {
  it('says that it was stopped', () => {
    const stopped = completed(1, { status: 'Stopped', secondary_status: 'Stopped' });
    expect(formatJobEnd(stopped, trans)).toBe('train-digits-1 was stopped after 1 min 40 s');
  });
});

describe('the counts', () => {
  const noon = new Date(2026, 10, 21, 12).getTime() / 1000;
  const midnight = new Date(2026, 10, 21).getTime() / 1000;
  const paid = (number: number, ended_at: number, cost: number | null): JobSummary =>
    completed(number, { created_at: ended_at - 10, ended_at, cost });
  const said = (jobs: JobSummary[], cursor: string | null = null): string =>
    formatCounts(applyListing(EMPTY_STATE, jobs, [pool(1)], 1, cursor).state, noon, trans);

  it('say what runs, what is warm, and what today cost', () => {
    const jobs = [job(0), paid(1, midnight + 60, 0.25), paid(2, noon, 0.16), paid(3, noon, null)];
    expect(said(jobs)).toBe('1 running · 1 warm · $0.41 today');
  });

  it('leave out what ended yesterday, and say nothing where nothing has a price', () => {
    expect(said([paid(1, midnight - 1, 3)])).toBe('0 running · 1 warm');
    expect(said([paid(1, noon, null)])).toBe('0 running · 1 warm');
    expect(said([paid(1, noon, 0)])).toBe('0 running · 1 warm');
  });

  it('claim no whole sum while older jobs of today may not be here', () => {
    expect(said([paid(1, noon, 1)], 'job-1')).toContain('over $1.00 today');
    expect(said([paid(1, noon, 1), paid(2, midnight - 9, 2)], 'job-2')).toContain('· $1.00 today');
    // It ran for long, and so it is here although younger ones are not.
    const long = completed(3, { created_at: midnight - 9, ended_at: noon, cost: 2 });
    expect(said([paid(1, noon, 1), long], 'job-1')).toContain('over $3.00 today');
  });

  it('do not call free what costs less than a cent', () => {
    expect([formatMoney(0), formatMoney(0.001), formatMoney(0.005), formatMoney(12)]).toEqual([
      '$0.00',
      '< $0.01',
      '$0.01',
      '$12.00'
    ]);
  });

  it.each([
    [0, '$0.00'],
    [0.00107576, '$0.00108'],
    [0.0023, '$0.00230'],
    [0.0000012345, '$0.00000123'],
    [0.0994, '$0.0994'],
    [0.09999, '$0.10'],
    [0.23, '$0.23'],
    [0.5, '$0.50'],
    [12.346, '$12.35']
  ])('of %d in a bill are %s, as in the kernel', (dollars, words) => {
    expect(formatExactMoney(dollars)).toBe(words);
  });

  it('count no pool as warm that a job uses', () => {
    const busy = applyListing(EMPTY_STATE, [], [pool(1, { expires_at: null })], 1).state;
    expect(formatCounts(busy, noon, trans)).toBe('0 running · 0 warm');
  });
});

describe('a card from a notebook', () => {
  it('is read with its snapshot', () => {
    // As it comes from a file, where it has no type.
    const card = JSON.parse(
      JSON.stringify({ id: 'a', name: 'n', summary: job(1) })
    ) as ReadonlyPartialJSONValue;
    expect(parseCard(card)).toEqual({
      id: 'a',
      name: 'n',
      summary: job(1),
      array: null,
      // A card of a release that wrote none of these.
      submission: null,
      recordsId: '',
      at: null
    });
  });

  it.each([undefined, null, 'text', 3, [], {}, { id: 1, name: 'n' }])('%p is no card', data => {
    expect(parseCard(data)).toBeNull();
  });

  it('with half a snapshot has none', () => {
    expect(
      parseCard({ id: 'a', name: 'n', summary: { id: 'a', status: 'InProgress' } })?.summary
    ).toBeNull();
  });
});

describe('an image', () => {
  const ID = `sha256:3fa85f645717${'0'.repeat(52)}`;
  const DIGEST = `sha256:${'ab'.repeat(32)}`;

  it.each([
    ['train:1', ID, 'train:1 (3fa85f645717)'],
    ['localhost:5000/team/train:1', ID, 'train:1 (3fa85f645717)'],
    [`team/train@${DIGEST}`, ID, 'train@abababababab (3fa85f645717)'],
    [`team/train@${DIGEST}`, '', 'train@abababababab'],
    ['train:1', '', 'train:1'],
    [ID, ID, '3fa85f645717'],
    ['3fa85f645717', ID, '3fa85f645717'],
    ['3fa', ID, '3fa (3fa85f645717)']
  ])('that is called %s, with the id %s, is said as %s', (name, id, words) => {
    expect(formatImage({ name, id })).toBe(words);
  });

  it('is not spoken of where there is none, or the server does not say', () => {
    expect([formatImage(null), formatImage(undefined)]).toEqual(['', '']);
  });
});

describe('an engine', () => {
  it.each([
    ['ssh:gpu-box', ['gpu-box'], 'ssh:gpu-box'],
    ['ssh', ['gpu-box', 'cpu-box'], 'ssh (gpu-box, cpu-box)'],
    ['slurm', ['n1', 'n2', 'n3', 'n4', 'n5'], 'slurm (n1, n2, n3, n4, …)'],
    ['ssh', [], 'ssh'],
    ['docker', undefined, 'docker'],
    ['local', undefined, 'local']
  ])('that is called %s, with hosts on %s, is said as %s', (name, machines, words) => {
    expect(formatEngine(name, machines)).toBe(words);
    expect(formatOtherEngine(name, machines)).toBe(name === 'local' ? '' : words);
  });
});

describe('what is done before the code runs', () => {
  it('is the step of a job that waits for its image, and is not said twice', () => {
    const looking = job(0, {
      secondary_status: 'Pending',
      start: 'none',
      message: 'Inspecting the image: Looking for Python in the image.'
    });
    expect(formatStep(looking, trans)).toBe(looking.message);
    expect(formatPreparation(looking, trans)).toBe('');
  });

  it.each([
    ['Downloading', 'Copying the input channels.'],
    ['Starting', 'Its files cannot be copied to its hosts now; the controller will try again.'],
    ['Training', '']
  ] as const)('is a sentence beside %s: %s', (secondary_status, words) => {
    const one = job(0, { secondary_status, message: words || 'Running the code.' });
    expect(formatPreparation(one, trans)).toBe(words);
  });
});
