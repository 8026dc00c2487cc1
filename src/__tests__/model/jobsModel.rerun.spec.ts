import { ApiError } from '../../api/errors';
import { arraySummary, arrayTask, completed, job } from '../fixtures/examples';
import type { IOpenModel } from '../fixtures/fakeServer';
import { openModel, settled } from '../fixtures/fakeServer';

describe('the model', () => {
  let { server, page, emitEvent, model } = {} as IOpenModel;

  beforeEach(() => {
    jest.useFakeTimers();
    ({ server, page, emitEvent, model } = openModel());
  });

  afterEach(() => {
    model.dispose();
    jest.useRealTimers();
  });

  const task = (index: number): ReturnType<typeof job> =>
    job(100 + index, { array: arrayTask(index, 4) });

  /** Change a task and send the event. */
  async function change(index: number): Promise<void> {
    emitEvent(server.happen({ job: task(index) }));
    await settled();
  }

  it('runs a job again under a new id, and returns the name of the new one', async () => {
    server.jobList = [completed(1)];
    await model.refresh();
    server.asked = [];
    expect(await model.rerun(completed(1))).toBe('job-1-again');
    expect(server.asked).toEqual(['rerun job-1 new', 'changes since 0']);
  });

  it('repeats the request under the same id when the answer was lost, and never after a refusal', async () => {
    await model.refresh();
    const asked = jest.spyOn(server, 'rerunJob');
    asked.mockRejectedValueOnce(new ApiError(0, 'NetworkError', 'gone'));
    const answer = model.rerun(completed(1));
    // A request that failed at once is repeated after a pause.
    await jest.advanceTimersByTimeAsync(1_000);
    await answer;
    expect(asked.mock.calls).toEqual([
      ['job-1', 'new'],
      ['job-1', 'new']
    ]);
    asked.mockRejectedValue(new ApiError(404, 'ResourceNotFound', 'the variables are gone'));
    await expect(model.rerun(completed(1))).rejects.toThrow('the variables are gone');
    expect(asked).toHaveBeenCalledTimes(3);
  });

  it('counts the tasks of arrays only where there are any', async () => {
    server.jobList = [job(1)];
    await model.refresh();
    expect(server.asked).not.toContain('arrays');
    server.jobList = [task(0)];
    server.arrayList = [arraySummary({ running: 1, pending: 3 })];
    await model.refresh();
    expect(model.state.arrays.get('a1')?.counts.pending).toBe(3);
  });

  it('counts a new array at once and a known one once a second, however many tasks change', async () => {
    await model.refresh();
    server.arrayList = [arraySummary({ running: 1, pending: 3 })];
    await change(0);
    expect(model.state.arrays.get('a1')?.counts.running).toBe(1);
    server.asked = [];
    server.arrayList = [arraySummary({ running: 4 })];
    for (const index of [1, 2, 3]) {
      await change(index);
    }
    const counted = (): number => server.asked.filter(one => one === 'array a1').length;
    expect(counted()).toBe(0);
    await jest.advanceTimersByTimeAsync(1000);
    expect(counted()).toBe(1);
    expect(model.state.arrays.get('a1')?.counts.running).toBe(4);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(counted()).toBe(1);
  });

  it('counts nothing while the page is hidden, and the changes of that time when it is shown', async () => {
    await model.refresh();
    page.visibilityState = 'hidden';
    await change(0);
    await jest.advanceTimersByTimeAsync(5000);
    expect(server.asked).not.toContain('array a1');
    page.visibilityState = 'visible';
    page.show();
    await jest.advanceTimersByTimeAsync(0);
    expect(server.asked).toContain('array a1');
  });

  it('counts again after a count that failed, but not what is gone', async () => {
    await model.refresh();
    const count = jest.spyOn(server, 'array');
    count.mockRejectedValueOnce(new ApiError(503, '', 'busy'));
    await change(0);
    await jest.advanceTimersByTimeAsync(2000);
    expect(count).toHaveBeenCalledTimes(2);
    count.mockRejectedValue(new ApiError(404, 'ResourceNotFound', 'gone'));
    await change(1);
    await jest.advanceTimersByTimeAsync(5000);
    expect(count).toHaveBeenCalledTimes(3);
  });

  it('stops all tasks of an array', async () => {
    await model.refresh();
    await model.stopArray('a1');
    expect(server.asked).toContain('stop array a1');
  });

  it('interrupts the hosts of a spot job', async () => {
    await model.refresh();
    await model.interrupt({ id: 'job-1' });
    expect(server.asked).toContain('interrupt job-1');
  });
});
