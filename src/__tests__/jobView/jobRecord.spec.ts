import { nullTranslator } from '@jupyterlab/translation';

import { ApiError, classifyFailure } from '../../api/errors';
import { JobRecord } from '../../jobView/jobRecord';
import { describeRecordError, recordErrorKind } from '../../jobView/recordError';
import type { IState } from '../../state/state';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job } from '../fixtures/examples';
import { FakeModel } from '../fixtures/fakeModel';
import { record } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

class FakePage extends EventTarget {
  visibilityState: DocumentVisibilityState = 'visible';

  become(state: DocumentVisibilityState): void {
    this.visibilityState = state;
    this.dispatchEvent(new Event('visibilitychange'));
  }
}

const settled = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) {
    await Promise.resolve();
  }
};

describe('the record of a job', () => {
  let model: FakeModel;
  let page: FakePage;
  let read: jest.Mock;
  let followed: JobRecord;

  const ready = (...jobs: Parameters<typeof applyListing>[1]): IState =>
    applyListing(EMPTY_STATE, jobs, [], 1).state;

  beforeEach(() => {
    jest.useFakeTimers();
    model = new FakeModel();
    model.state = ready(job(0));
    page = new FakePage();
    read = jest.fn(() => Promise.resolve(record()));
    followed = new JobRecord({
      id: 'job-0',
      model,
      page: page as never,
      random: () => 0.5,
      source: { record: read, places: () => Promise.resolve({}) }
    });
  });

  afterEach(() => {
    followed.dispose();
    jest.useRealTimers();
  });

  it('is read when the view is shown for the first time and not before', async () => {
    await settled();
    expect(read).not.toHaveBeenCalled();
    followed.setVisible(true);
    await settled();
    expect(read).toHaveBeenCalledTimes(1);
    expect(followed.job?.name).toBe('train-digits-0');
    expect(followed.failure).toBeNull();
  });

  it('is read again after a step, and not for progress alone', async () => {
    followed.setVisible(true);
    await settled();
    const progress = { fraction: 0.5, text: '', remaining_seconds: null, at: 1 };
    model.become(ready(job(0, { progress })));
    await settled();
    expect(read).toHaveBeenCalledTimes(1);
    expect(followed.summary?.progress).toEqual(progress);
    model.become(ready(completed(0)));
    await settled();
    expect(read).toHaveBeenCalledTimes(2);
  });

  it('sends no requests while the view is hidden, and one when it is shown again', async () => {
    followed.setVisible(true);
    await settled();
    followed.setVisible(false);
    model.become(ready(job(0, { secondary_status: 'Uploading' })));
    model.become(ready(completed(0)));
    await settled();
    expect(read).toHaveBeenCalledTimes(1);
    page.become('hidden');
    followed.setVisible(true);
    await settled();
    expect(read).toHaveBeenCalledTimes(1);
    page.become('visible');
    await settled();
    expect(read).toHaveBeenCalledTimes(2);
  });

  it('has one request at a time, and sends another for changes in the meantime', async () => {
    let answer: (found: unknown) => void = () => undefined;
    read.mockImplementation(() => new Promise(resolve => (answer = resolve)));
    followed.setVisible(true);
    model.become(ready(job(0, { secondary_status: 'Uploading' })));
    model.become(ready(completed(0)));
    await settled();
    expect(read).toHaveBeenCalledTimes(1);
    answer(record());
    await settled();
    expect(read).toHaveBeenCalledTimes(2);
  });

  it('keeps the record of a deleted job, and stops its requests', async () => {
    followed.setVisible(true);
    await settled();
    read.mockRejectedValue(new ApiError(404, 'ResourceNotFound', 'There is no job.'));
    model.become(ready());
    await settled();
    expect(read).toHaveBeenCalledTimes(2);
    expect(followed.job?.id).toBe('job-0');
    expect(followed.failure?.kind).toBe('gone');
    jest.advanceTimersByTime(60_000);
    await settled();
    expect(read).toHaveBeenCalledTimes(2);
  });

  it('retries after a failure, later each time, while the view is visible', async () => {
    read.mockRejectedValueOnce(new ApiError(502, '', 'Bad Gateway'));
    read.mockRejectedValueOnce(new ApiError(0, 'NetworkError', ''));
    followed.setVisible(true);
    await settled();
    expect(followed.failure?.kind).toBe('broken');
    jest.advanceTimersByTime(2000);
    await settled();
    expect(followed.failure?.kind).toBe('lost');
    jest.advanceTimersByTime(3000);
    await settled();
    expect(read).toHaveBeenCalledTimes(2);
    jest.advanceTimersByTime(1000);
    await settled();
    expect(followed.failure).toBeNull();
    expect(read).toHaveBeenCalledTimes(3);
  });

  it('continues when the controller is there again', async () => {
    model.state = { ...EMPTY_STATE, connectionStatus: 'asleep' };
    followed.setVisible(true);
    read.mockRejectedValueOnce(new ApiError(503, 'ServiceUnavailable', 'No controller.'));
    followed.refresh();
    await settled();
    model.become({ ...EMPTY_STATE, connectionStatus: 'asleep' });
    await settled();
    // The lists are requested, too: no event announces that a controller has exited.
    expect(model.refresh).toHaveBeenCalledTimes(1);
    const before = read.mock.calls.length;
    model.become(ready(completed(0)));
    await settled();
    expect(read.mock.calls.length).toBe(before + 1);
    expect(followed.failure).toBeNull();
  });

  it('sends nothing after it was disposed', async () => {
    followed.setVisible(true);
    followed.dispose();
    await settled();
    const before = read.mock.calls.length;
    model.become(ready(completed(0)));
    page.become('visible');
    await settled();
    expect(read.mock.calls.length).toBe(before);
  });
});

describe('why a job cannot be read', () => {
  it.each([
    [new ApiError(404, 'ResourceNotFound', ''), 'ready', 'gone'],
    [new ApiError(404, '', 'Not Found'), 'ready', 'missing'],
    [new ApiError(403, 'AccessDeniedException', ''), 'ready', 'forbidden'],
    [new ApiError(403, '', 'Forbidden'), 'ready', 'loggedOut'],
    [new ApiError(401, '', ''), 'ready', 'loggedOut'],
    [new ApiError(503, 'ServiceUnavailable', ''), 'asleep', 'asleep'],
    [new ApiError(503, 'ServiceUnavailable', ''), 'ready', 'failing'],
    [new ApiError(0, 'NetworkError', ''), 'ready', 'failing'],
    [new TypeError('odd'), 'ready', 'failing']
  ] as const)('%s while it is %s is %s', (reason, reach, kind) => {
    expect(recordErrorKind(classifyFailure(reason), reach)).toBe(kind);
  });

  it('is a sentence with its cure', () => {
    const say = (status: number, code: string, isKnown: boolean): string =>
      describeRecordError(
        classifyFailure(new ApiError(status, code, 'no route to host')),
        'ready',
        isKnown,
        trans
      ).message;
    expect(say(404, 'ResourceNotFound', true)).toContain('loaded earlier');
    expect(say(404, 'ResourceNotFound', false)).toContain('it was deleted');
    expect(say(403, '', true)).toContain('Log in again');
    expect(say(0, 'NetworkError', true)).toContain('no route to host');
  });
});
