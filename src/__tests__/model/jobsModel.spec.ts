import { ApiError } from '../../api/errors';
import { FINISHED_LIMIT, runningJobs } from '../../state/state';
import { arraySummary, arrayTask, completed, job, pool } from '../fixtures/examples';
import type { IOpenModel } from '../fixtures/fakeServer';
import { openModel, settled } from '../fixtures/fakeServer';

describe('the model', () => {
  let { server, page, bus, emitEvent, model } = {} as IOpenModel;

  beforeEach(() => {
    jest.useFakeTimers();
    ({ server, page, bus, emitEvent, model } = openModel());
  });

  afterEach(() => {
    model.dispose();
    jest.useRealTimers();
  });

  it('lists once and adopts the clock of the server', async () => {
    server.jobList = [job(1)];
    server.poolList = [pool(1)];
    await model.refresh();
    expect(server.asked).toEqual(['controller', 'jobs', 'pools']);
    expect([model.state.connectionStatus, model.state.jobs.size, model.state.pools.size]).toEqual([
      'ready',
      1,
      1
    ]);
    expect(model.now()).toBe(1010);
  });

  it('has the clock of the server right after a slow listing, too', async () => {
    let at = 1000;
    const slow = openModel(() => at);
    const listing = slow.model.refresh();
    let open = (): void => undefined;
    slow.server.gate = new Promise(resolve => (open = resolve));
    await settled();
    [at, slow.server.now] = [1005, 1015];
    open();
    await listing;
    expect(slow.model.now()).toBe(1015);
    slow.model.dispose();
  });

  it('reads older jobs page by page, each once, until there are no more', async () => {
    // Newest first, as the server gives them.
    server.jobList = Array.from({ length: 2500 }, (_, i) => completed(2500 - i));
    await model.refresh();
    expect(model.state.jobs.size).toBe(FINISHED_LIMIT);
    server.asked = [];
    await Promise.all([model.loadMore(), model.loadMore()]);
    expect(server.asked).toEqual(['jobs job-2301']);
    expect(model.state.jobs.size).toBe(1200);
    await model.loadMore();
    await model.loadMore();
    expect([model.state.jobs.size, model.state.cursor]).toEqual([2500, null]);
    server.asked = [];
    await model.loadMore();
    expect(server.asked).toEqual([]);
  });

  it('reads on from the new end of the list, if that moved during the request for a page', async () => {
    server.jobList = Array.from({ length: 1500 }, (_, i) => completed(1500 - i));
    await model.refresh();
    server.asked = [];
    let open = (): void => undefined;
    server.gate = new Promise(resolve => (open = resolve));
    void model.loadMore();
    server.gate = null;
    server.jobList.unshift(completed(1501));
    emitEvent(server.happen({ job: completed(1501) }));
    await settled();
    // The list ends with another job now, so the request is for what comes before that one.
    void model.loadMore();
    open();
    await settled();
    expect(server.asked).toEqual(['jobs job-1301', 'changes since 0', 'jobs job-1302']);
    expect(model.state.jobs.size).toBe(FINISHED_LIMIT + 1000);
  });

  it('lists as many finished jobs at first as the option says', async () => {
    server.jobList = Array.from({ length: 50 }, (_, i) => completed(50 - i));
    await model.setFinishedLimit(20);
    expect(server.asked).toEqual([]);
    await model.refresh();
    expect([model.state.jobs.size, model.state.cursor]).toEqual([20, 'job-31']);
    await model.setFinishedLimit(30);
    expect(model.state.jobs.size).toBe(30);
  });

  it('lists jobs that run although they are older than the first page', async () => {
    const newer = Array.from({ length: FINISHED_LIMIT }, (_, i) => completed(500 - i));
    server.jobList = [...newer, job(2), job(1, { status: 'Stopping' })];
    await model.refresh();
    expect(runningJobs(model.state).map(one => one.id)).toEqual(['job-1', 'job-2']);
  });

  it('removes a job that it deleted before the event of the deletion', async () => {
    server.jobList = [completed(2), completed(1)];
    await model.refresh();
    await model.remove(completed(1));
    expect(server.asked).toContain('delete job-1');
    expect([...model.state.jobs.keys()]).toEqual(['job-2']);
  });

  it.each(['here', 'elsewhere'])('counts an array anew whose task was deleted %s', async where => {
    const task = completed(1, { array: arrayTask(0, 2) });
    server.jobList = [task];
    server.arrayList = [arraySummary({ completed: 2 })];
    await model.refresh();
    server.arrayList = [arraySummary({ completed: 1 })];
    if (where === 'here') {
      await model.remove(task);
    }
    emitEvent(server.happen({ deleted: task.id }));
    await jest.advanceTimersByTimeAsync(1000);
    expect(model.state.arrays.get('a1')?.counts.completed).toBe(1);
  });

  it('keeps a job whose deletion was refused', async () => {
    server.jobList = [completed(1)];
    await model.refresh();
    server.failure = new ApiError(409, 'ResourceInUse', 'It retains a warm pool.');
    await expect(model.remove(completed(1))).rejects.toThrow('retains');
    expect(model.state.jobs.size).toBe(1);
  });

  it('requests the changes when an event announces them', async () => {
    await model.refresh();
    server.asked = [];
    emitEvent(server.happen({ job: job(1) }));
    await settled();
    expect(server.asked).toEqual(['changes since 0']);
    expect(model.state.jobs.has('job-1')).toBe(true);
  });

  it('fills a gap: lost events come with the next one', async () => {
    await model.refresh();
    server.happen({ job: job(1) });
    server.happen({ job: job(2) });
    emitEvent(server.happen({ pool: pool(1) }));
    await settled();
    expect([model.state.jobs.size, model.state.pools.size, model.state.seq]).toEqual([2, 1, 3]);
  });

  it('sends no request for changes that it has, nor for events of others', async () => {
    server.seq = 5;
    await model.refresh();
    server.asked = [];
    emitEvent(5);
    bus.emit({
      schema_id: 'https://events.jupyter.org/jupyter_server/contents_service/v1',
      seq: 9
    });
    await settled();
    expect(server.asked).toEqual([]);
  });

  it('trusts no event: a forged number shows nothing that the server does not have', async () => {
    await model.refresh();
    emitEvent(1_000_000);
    await settled();
    expect(model.state.seq).toBe(0);
    emitEvent(server.happen({ job: job(1) }));
    await settled();
    expect(model.state.jobs.has('job-1')).toBe(true);
  });

  it('has one request at a time however many events come', async () => {
    await model.refresh();
    server.asked = [];
    let open = (): void => undefined;
    server.gate = new Promise(resolve => (open = resolve));
    for (let i = 0; i < 500; i++) {
      emitEvent(server.happen({ job: job(i) }));
    }
    await settled();
    expect(server.asked).toEqual(['changes since 0']);
    open();
    await settled();
    expect(server.asked).toEqual(['changes since 0', 'changes since 1']);
    expect(model.state.seq).toBe(500);
  });

  it('requests the rest if an answer has only a part of very many changes', async () => {
    await model.refresh();
    server.asked = [];
    server.page = 2;
    for (let i = 0; i < 5; i++) {
      server.happen({ job: job(i) });
    }
    emitEvent(5);
    await settled();
    expect(server.asked).toEqual(['changes since 0', 'changes since 2', 'changes since 4']);
    expect(model.state.jobs.size).toBe(5);
  });

  it('lists again on a reset, by event or by answer', async () => {
    await model.refresh();
    server.asked = [];
    emitEvent(0, 'reset');
    await settled();
    expect(server.asked).toEqual(['controller', 'jobs', 'pools']);
    server.asked = [];
    server.reset = true;
    emitEvent(server.happen({ job: job(1) }));
    await settled();
    expect(server.asked).toEqual(['changes since 0', 'controller', 'jobs', 'pools']);
  });

  it('lists after a reset even if another event comes before the listing', async () => {
    await model.refresh();
    let open = (): void => undefined;
    server.gate = new Promise(resolve => (open = resolve));
    emitEvent(server.happen({ job: job(1) }));
    await settled();
    emitEvent(0, 'reset');
    emitEvent(server.happen({ job: job(2) }));
    server.asked = [];
    open();
    await settled();
    expect(server.asked).toEqual(['controller', 'jobs', 'pools']);
  });

  it('polls when the tab is shown, and not when it is hidden', async () => {
    await model.refresh();
    server.happen({ job: job(1) });
    page.visibilityState = 'hidden';
    page.show();
    await settled();
    expect(model.state.jobs.size).toBe(0);
    page.visibilityState = 'visible';
    page.show();
    await settled();
    expect(model.state.jobs.size).toBe(1);
  });

  it('reports the end of a job once, even if it ended while the tab was hidden', async () => {
    const ended: string[] = [];
    model.ended.connect((_, jobs) => ended.push(...jobs.map(one => one.id)));
    server.jobList = [job(1), completed(9)];
    await model.refresh();
    emitEvent(server.happen({ job: completed(1) }));
    await settled();
    server.jobList = [completed(1), completed(9)];
    await model.refresh();
    expect(ended).toEqual(['job-1']);
  });

  it('starts nothing while no controller runs, until the user starts one', async () => {
    server.running = false;
    await model.refresh();
    expect([model.state.connectionStatus, server.asked]).toEqual(['asleep', ['controller']]);
    server.asked = [];
    await jest.advanceTimersByTimeAsync(80_000);
    expect(new Set(server.asked)).toEqual(new Set(['controller']));
    expect(server.asked.length).toBeLessThan(6);
    server.asked = [];
    server.jobList = [completed(1)];
    await model.startController();
    expect(server.asked).toEqual(['start', 'controller', 'jobs', 'pools']);
    expect(model.state.jobs.size).toBe(1);
  });

  it('keeps its lists when the controller exits, and follows the events of the next one', async () => {
    server.jobList = [completed(1)];
    await model.refresh();
    server.running = false;
    server.reset = true;
    page.show();
    await settled();
    expect([model.state.connectionStatus, model.state.failure, model.state.jobs.size]).toEqual([
      'asleep',
      null,
      1
    ]);
    server.running = true;
    emitEvent(0, 'reset');
    await settled();
    expect(model.state.connectionStatus).toBe('ready');
  });

  it('keeps its lists while the server is away', async () => {
    server.jobList = [job(1)];
    await model.refresh();
    server.failure = new ApiError(0, 'NetworkError', 'gone');
    await model.refresh();
    expect(model.state.jobs.size).toBe(1);
  });

  it('extends a pool from its end by the clock of the server', async () => {
    await model.refresh();
    await model.extend(pool(1, { expires_at: 1310 }), 900);
    expect(server.asked).toContain('keep pool-1 1200');
  });

  it('does not extend a pool that is in use', async () => {
    await model.refresh();
    await model.extend(pool(1, { expires_at: null }), 900);
    expect(server.asked.filter(what => what.startsWith('keep'))).toEqual([]);
  });

  it('passes the refusal of an action on to its caller', async () => {
    await model.refresh();
    server.failure = new ApiError(409, 'ResourceInUse', 'A job took it.');
    await expect(model.release(pool(1))).rejects.toThrow('A job took it.');
  });

  it('announces the pools that others end, and not those that this page released', async () => {
    server.poolList = [pool(1), pool(2)];
    await model.refresh();
    const ids: string[] = [];
    model.poolsEnded.connect((_, pools) => ids.push(...pools.map(one => one.id)));
    server.happen({ pool: pool(1, { state: 'Releasing' }) });
    await model.release(pool(1));
    server.happen({ pool: pool(2, { state: 'Releasing' }) });
    await model.catchUp();
    expect(ids).toEqual(['pool-2']);
  });

  it('does nothing after it was disposed', async () => {
    await model.refresh();
    server.asked = [];
    model.dispose();
    emitEvent(server.happen({ job: job(1) }));
    page.show();
    await settled();
    expect(server.asked).toEqual([]);
  });
});
