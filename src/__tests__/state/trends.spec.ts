import type { JobSummary } from '../../_types';
import { applyChanges, applyListing, EMPTY_STATE } from '../../state/state';
import { TREND_LENGTH } from '../../state/trends';
import { completed, job } from '../fixtures/examples';

const used = (cpu: number | null, gpu: number | null = null): Pick<JobSummary, 'usage'> => ({
  usage: {
    cpu_percent: cpu,
    memory_bytes: 1,
    gpu_percent: gpu,
    gpu_memory_bytes: null,
    cpu_seconds: null
  }
});

function told(...jobs: JobSummary[]): typeof EMPTY_STATE {
  const begin = applyListing(EMPTY_STATE, [job(0), job(1)], [], 0).state;
  return jobs.reduce(
    (state, one) =>
      applyChanges(state, {
        seq: state.seq + 1,
        reset: false,
        events: [{ seq: state.seq + 1, at: 0, kind: 'job', job: one, pool: null, deleted: '' }]
      } as never).state,
    begin
  );
}

describe('what a job used lately', () => {
  it('grows with each figure, up to the bars that fit', () => {
    const figures = Array.from({ length: TREND_LENGTH + 3 }, (_, index) => 10 * index);
    const { trends } = told(...figures.map(cpu => job(0, used(cpu))));
    expect(trends.get('job-0')).toEqual({ cpu: figures.slice(-TREND_LENGTH), gpu: [] });
    expect(trends.has('job-1')).toBe(false);
  });

  it('does not grow with progress, which repeats the last figures', () => {
    const { trends } = told(job(0, used(50, 7)), job(0, { ...used(50, 7), metrics: { loss: 1 } }));
    expect(trends.get('job-0')).toEqual({ cpu: [50], gpu: [7] });
  });

  it('has no bar for what was not measured', () => {
    const { trends } = told(job(0, used(50)), job(0, used(null, 3)), job(0, used(0, 0)));
    expect(trends.get('job-0')).toEqual({ cpu: [50, 0], gpu: [3, 0] });
  });

  it('is removed when the job is over, deleted, or no longer listed', () => {
    const before = told(job(0, used(50)), job(1, used(60)));
    expect([...before.trends.keys()]).toEqual(['job-0', 'job-1']);
    expect([...told(job(0, used(50)), completed(0, used(50))).trends.keys()]).toEqual([]);
    expect([...applyListing(before, [job(1, used(60))], [], 9).state.trends.keys()]).toEqual([
      'job-1'
    ]);
    const gone = { seq: 99, at: 0, kind: 'job', job: null, pool: null, deleted: 'job-1' };
    const after = applyChanges(before, { seq: 99, reset: false, events: [gone] }).state;
    expect([...after.trends.keys()]).toEqual(['job-0']);
  });
});
