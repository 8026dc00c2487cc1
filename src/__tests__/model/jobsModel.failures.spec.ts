import { ApiError } from '../../api/errors';
import { isReachable } from '../../state/connectionState';
import { hasJobsElsewhere } from '../../state/state';
import { completed, job } from '../fixtures/examples';
import type { IOpenModel } from '../fixtures/fakeServer';
import { openModel, settled } from '../fixtures/fakeServer';

describe('the model in trouble', () => {
  let { server, page, emitEvent, model } = {} as IOpenModel;

  beforeEach(() => {
    jest.useFakeTimers();
    ({ server, page, emitEvent, model } = openModel());
  });

  afterEach(() => {
    model.dispose();
    jest.useRealTimers();
  });

  it.each([
    [404, '', 'missing', 'missing'],
    [404, 'ResourceNotFound', 'failing', 'gone'],
    [503, 'ServiceUnavailable', 'failing', 'refused'],
    [503, '', 'failing', 'broken'],
    [403, '', 'failing', 'loggedOut']
  ])('says of an answer %d %p that the server half is %s', async (status, code, reach, kind) => {
    server.failure = new ApiError(status, code, 'a sentence');
    await model.refresh();
    const { failure } = model.state;
    expect([model.state.connectionStatus, failure?.kind, failure?.message]).toEqual([
      reach,
      kind,
      'a sentence'
    ]);
  });

  it('retries later each time, and soon after the server came back', async () => {
    await model.refresh();
    server.failure = new ApiError(502, '', 'Bad Gateway');
    await model.refresh();
    server.asked = [];
    await jest.advanceTimersByTimeAsync(300_000);
    // 2, 4, 8, 16 seconds, then every 30.
    expect(server.asked.length).toBeGreaterThan(8);
    expect(server.asked.length).toBeLessThan(15);
    server.failure = null;
    await jest.advanceTimersByTimeAsync(38_000);
    expect([model.state.connectionStatus, model.state.failure]).toEqual(['ready', null]);
    server.failure = new ApiError(0, '', 'gone');
    await model.refresh();
    server.failure = null;
    await jest.advanceTimersByTimeAsync(2_500);
    expect(model.state.connectionStatus).toBe('ready');
  });

  it('sends few requests while the user is logged out, whatever the event bus says', async () => {
    await model.refresh();
    server.failure = new ApiError(403, 'UnrecognizedClientException', 'Nobody is logged in.');
    await model.refresh();
    server.asked = [];
    for (let i = 0; i < 100; i++) {
      emitEvent(server.happen({ job: job(i) }));
      await jest.advanceTimersByTimeAsync(100);
    }
    emitEvent(0, 'reset');
    await settled();
    expect(server.asked).toEqual([]);
    await jest.advanceTimersByTimeAsync(600_000);
    expect(server.asked.length).toBeGreaterThan(1);
    expect(server.asked.length).toBeLessThan(7);
  });

  it('polls now and then, because no signal reports that the bus is lost', async () => {
    const ended: string[] = [];
    model.ended.connect((_, jobs) => ended.push(...jobs.map(one => one.id)));
    server.jobList = [job(1)];
    await model.refresh();
    server.asked = [];
    await jest.advanceTimersByTimeAsync(4_100);
    expect(server.asked).toEqual(['changes since 0']);
    server.happen({ job: completed(1) });
    await jest.advanceTimersByTimeAsync(4_100);
    expect(ended).toEqual(['job-1']);
    server.asked = [];
    await jest.advanceTimersByTimeAsync(29_000);
    expect(server.asked).toEqual([]);
    await jest.advanceTimersByTimeAsync(1_100);
    expect(server.asked).toEqual(['changes since 1']);
  });

  it.each([true, false])(
    'knows where the records are (controller: %p), until they are in the data folder again',
    async running => {
      server.running = running;
      server.recordsNote = 'They are in /a.';
      await model.refresh();
      expect(model.state.recordsNote).toBe('They are in /a.');
      server.recordsNote = '';
      await model.refresh();
      expect(model.state.recordsNote).toBe('');
    }
  );

  it.each([true, false])(
    'tells jobs of other records, those of an older card or server aside (controller: %p)',
    async running => {
      server.running = running;
      model.expectJob('job-1', '');
      model.expectJob('job-2', 'here');
      await model.refresh();
      expect(hasJobsElsewhere(model.state)).toBe(false);
      model.expectJob('job-3', 'there');
      expect(hasJobsElsewhere(model.state)).toBe(true);
      server.recordsId = undefined;
      await model.refresh();
      expect(hasJobsElsewhere(model.state)).toBe(false);
    }
  );

  it('polls as seldom while a job goes on if events come', async () => {
    server.jobList = [job(1)];
    await model.refresh();
    emitEvent(server.happen({ job: job(1) }));
    await settled();
    server.asked = [];
    await jest.advanceTimersByTimeAsync(22_000);
    expect(server.asked).toEqual([]);
  });

  it('finds a controller that started without an event while the bus was lost', async () => {
    server.running = false;
    await model.refresh();
    server.running = true;
    server.jobList = [completed(1)];
    server.version = '9.9.9';
    await jest.advanceTimersByTimeAsync(30_100);
    expect([model.state.connectionStatus, model.state.jobs.size]).toEqual(['ready', 1]);
    expect(model.state.serverVersion).toBe('9.9.9');
  });

  it('reads at once, and then often for a minute, when a card shows a job that is not listed', async () => {
    let now = 1000;
    model.dispose();
    ({ server, page, emitEvent, model } = openModel(() => now));
    await model.refresh();
    server.asked = [];
    model.expectJob('job-1', '');
    model.expectJob('job-1', '');
    await settled();
    expect(server.asked).toEqual(['changes since 0']);
    await jest.advanceTimersByTimeAsync(4_100);
    expect(server.asked).toHaveLength(2);
    now += 60;
    await jest.advanceTimersByTimeAsync(4_100);
    server.asked = [];
    await jest.advanceTimersByTimeAsync(29_000);
    expect(server.asked).toEqual([]);
  });

  it('lists at once for cards that are drawn before the page is complete', async () => {
    server.jobList = [job(1)];
    model.expectJob('job-1', '');
    model.expectJob('job-2', '');
    await settled();
    expect(server.asked).toEqual(['controller', 'jobs', 'pools', 'changes since 0']);
    expect(model.state.jobs.has('job-1')).toBe(true);
  });

  it('reads nothing more for cards of jobs that the first listing has', async () => {
    server.jobList = [job(1)];
    void model.refresh();
    model.expectJob('job-1', '');
    await settled();
    expect(server.asked).toEqual(['controller', 'jobs', 'pools']);
  });

  it('has lost the server after one poll without an answer, while jobs run and no event comes', async () => {
    server.jobList = [job(1)];
    await model.refresh();
    server.failure = new ApiError(0, 'NetworkError', 'Failed to fetch');
    await jest.advanceTimersByTimeAsync(4_100);
    expect(isReachable(model.state)).toBe(false);
  });

  it('leaves it to the poller to try again where the first listing failed', async () => {
    server.failure = new ApiError(503, 'ServiceUnavailable', 'Later.');
    model.expectJob('job-1', '');
    await settled();
    expect(server.asked).toEqual(['controller']);
  });

  it('takes over a number of finished jobs that is set while it lists for the first time', async () => {
    server.jobList = Array.from({ length: 50 }, (_, i) => completed(50 - i));
    model.expectJob('job-51', '');
    await model.setFinishedLimit(20);
    expect(model.state.jobs.size).toBe(20);
  });

  it('reads nothing for a card of a job that is listed', async () => {
    server.jobList = [job(1)];
    await model.refresh();
    server.asked = [];
    model.expectJob('job-1', '');
    await settled();
    expect(server.asked).toEqual([]);
  });

  it('starts the controller behind a proxy whose read timeout is shorter than the start', async () => {
    const start = jest.spyOn(server, 'startController');
    start.mockRejectedValueOnce(new ApiError(504, '', 'Gateway Time-out'));
    start.mockRejectedValueOnce(new ApiError(504, '', 'Gateway Time-out'));
    server.running = false;
    const started = model.startController();
    await jest.advanceTimersByTimeAsync(1_500);
    await started;
    expect([start.mock.calls.length, model.state.connectionStatus]).toEqual([3, 'ready']);
  });

  it.each([true, false])(
    'asks nothing by itself in a hidden tab (controller: %p)',
    async running => {
      server.running = running;
      await model.refresh();
      page.visibilityState = 'hidden';
      server.asked = [];
      await jest.advanceTimersByTimeAsync(600_000);
      server.failure = new ApiError(0, '', 'gone');
      await model.refresh();
      await jest.advanceTimersByTimeAsync(600_000);
      expect(server.asked).toEqual(['controller']);
      server.failure = null;
      page.visibilityState = 'visible';
      page.show();
      await settled();
      expect(model.state.connectionStatus).toBe(running ? 'ready' : 'asleep');
    }
  );

  it('reports that a job ended while the server was away', async () => {
    const ended: string[] = [];
    model.ended.connect((_, jobs) => ended.push(...jobs.map(one => one.id)));
    server.jobList = [job(1)];
    await model.refresh();
    server.failure = new ApiError(0, '', 'gone');
    await model.refresh();
    server.jobList = [completed(1)];
    server.failure = null;
    await jest.advanceTimersByTimeAsync(3000);
    expect(ended).toEqual(['job-1']);
  });

  it('has the time of the last answer, by the clock of the server, and its version', async () => {
    server.version = '9.9.9';
    await model.refresh();
    server.failure = new ApiError(0, '', 'gone');
    await model.refresh();
    expect([model.state.lastResponseAt, model.state.serverVersion]).toEqual([1010, '9.9.9']);
  });

  it('has the address of the front as the last answer with one has it', async () => {
    server.running = false;
    server.awsUrl = 'http://127.0.0.1:40123';
    await model.refresh();
    expect(model.state.awsUrl).toBe('http://127.0.0.1:40123');
    server.running = true;
    await model.refresh();
    server.awsUrl = '';
    await model.catchUp();
    expect(model.state.awsUrl).toBe('');
    server.awsUrl = undefined;
    await model.catchUp();
    expect(model.state.awsUrl).toBe('');
  });

  it('says why the controller could not be started until it can be', async () => {
    server.running = false;
    await model.refresh();
    expect(model.state.failure).toBeNull();
    server.cannotStart = true;
    await expect(model.startController()).rejects.toThrow('could not be started');
    expect([model.state.connectionStatus, model.state.failure?.kind]).toEqual([
      'asleep',
      'refused'
    ]);
    expect(model.state.failure?.message).toBe('It could not be started. Make the folder writable.');
    server.cannotStart = false;
    await model.startController();
    expect([model.state.connectionStatus, model.state.failure]).toEqual(['ready', null]);
  });

  it('tries again after a failure while the tab is visible', async () => {
    server.failure = new ApiError(0, 'NetworkError', 'gone');
    await model.refresh();
    expect(model.state.connectionStatus).toBe('failing');
    server.failure = null;
    await jest.advanceTimersByTimeAsync(6000);
    expect(model.state.connectionStatus).toBe('ready');
  });
});
