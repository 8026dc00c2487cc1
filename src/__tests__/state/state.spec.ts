import {
  appendPage,
  applyChanges,
  applyListing,
  EMPTY_STATE,
  extendedKeepAlive,
  FINISHED_LIMIT,
  finishedJobs,
  livePools,
  removeJob,
  runningJobs
} from '../../state/state';
import { changes, completed, event, job, pool } from '../fixtures/examples';

const ready = applyListing(EMPTY_STATE, [job(1)], [pool(1)], 10).state;

describe('a listing', () => {
  it('replaces everything and drops pools that are over', () => {
    const { state } = applyListing(
      ready,
      [job(2)],
      [pool(2), pool(3, { state: 'Terminated' })],
      12
    );
    expect([...state.jobs.keys()]).toEqual(['job-2']);
    expect([...state.pools.keys()]).toEqual(['pool-2']);
    expect([state.seq, state.connectionStatus]).toEqual([12, 'ready']);
  });

  it('reports which jobs got their verdict while the tab was hidden', () => {
    const { ended } = applyListing(ready, [completed(1), completed(2)], [], 12);
    expect(ended.map(one => one.id)).toEqual(['job-1']);
  });

  it('reports, of jobs that are new to it, only those that ended after the last answer', () => {
    const heard = { ...ready, lastResponseAt: 1105 };
    const { ended } = applyListing(heard, [completed(4), completed(5), completed(6)], [], 12);
    expect(ended.map(one => one.id)).toEqual(['job-6']);
  });
});

describe('changes', () => {
  it('are applied in the order of their numbers, whatever the order they come in', () => {
    const news = changes([event(12, { job: completed(1) }), event(11, { job: job(1) })]);
    expect(applyChanges(ready, news).state.jobs.get('job-1')?.status).toBe('Completed');
  });

  it('that were applied already change nothing', () => {
    const stale = changes([event(9, { job: completed(1) }), event(10, { pool: pool(9) })]);
    const { state, ended } = applyChanges(ready, stale);
    expect(state.jobs).toEqual(ready.jobs);
    expect(state.pools).toEqual(ready.pools);
    expect(state.seq).toBe(10);
    expect(ended).toEqual([]);
  });

  it('name the pools that they end, with the reason, if the page knew them', () => {
    const over = pool(1, { state: 'Releasing', expires_at: null, reason: 'Released by the user.' });
    const news = changes([
      event(11, { pool: over }),
      event(12, { pool: { ...over, state: 'Terminated' } }),
      event(13, { pool: pool(2, { state: 'Terminated' }) })
    ]);
    expect(applyChanges(ready, news).endedPools).toEqual([over]);
  });

  it('move the number on even when they are empty', () => {
    expect(applyChanges(ready, changes([], { seq: 15 })).state.seq).toBe(15);
  });

  it('leave the old state untouched', () => {
    applyChanges(ready, changes([event(11, { job: completed(1) })]));
    expect(ready.jobs.get('job-1')?.status).toBe('InProgress');
  });

  it('announce a verdict once', () => {
    const first = applyChanges(ready, changes([event(11, { job: completed(1) })]));
    const again = applyChanges(
      first.state,
      changes([event(12, { job: completed(1, { cost: 1 }) })])
    );
    expect(first.ended.map(one => one.id)).toEqual(['job-1']);
    expect(again.ended).toEqual([]);
  });

  it('announce a job that was over before it was seen to run', () => {
    const news = changes([event(11, { job: job(2) }), event(12, { job: completed(2) })]);
    expect(applyChanges(ready, news).ended.map(one => one.id)).toEqual(['job-2']);
  });

  it.each(['Releasing', 'Terminated'])('take away a pool that is %s', state => {
    const news = changes([event(11, { pool: pool(1, { state }) })]);
    expect(applyChanges(ready, news).state.pools.size).toBe(0);
  });

  it('forget the oldest finished jobs and never a running one', () => {
    const many = Array.from({ length: FINISHED_LIMIT + 5 }, (_, i) =>
      event(11 + i, { job: completed(i + 2) })
    );
    const { state } = applyChanges(ready, changes(many));
    expect(finishedJobs(state)).toHaveLength(FINISHED_LIMIT);
    expect(runningJobs(state).map(one => one.id)).toEqual(['job-1']);
    expect(state.jobs.has('job-2')).toBe(false);
  });
});

describe('a job that was deleted somewhere else', () => {
  it('is removed, and its end is not reported', () => {
    const state = applyListing(EMPTY_STATE, [completed(1), completed(2), job(3)], [], 1).state;
    const told = changes([
      event(2, { job: completed(3) }),
      event(3, { deleted: 'job-3' }),
      event(4, { deleted: 'job-1' })
    ]);
    const next = applyChanges(state, told);
    expect([...next.state.jobs.keys()]).toEqual(['job-2']);
    expect(next.ended).toEqual([]);
  });

  it('is not the place from which the next page is read', () => {
    const state = applyListing(EMPTY_STATE, [completed(3), completed(2)], [], 1, 'job-2').state;
    expect(applyChanges(state, changes([event(2, { deleted: 'job-2' })])).state.cursor).toBe(
      'job-3'
    );
    expect(applyChanges(state, changes([event(2, { deleted: 'job-3' })])).state.cursor).toBe(
      'job-2'
    );
  });
});

describe('pages', () => {
  it('add older jobs and leave the listed ones as they are', () => {
    const state = { ...ready, cursor: 'job-1' };
    const next = appendPage(state, [completed(0), completed(1)], 'job-0');
    expect([...next.jobs.keys()].sort()).toEqual(['job-0', 'job-1']);
    expect(next.jobs.get('job-1')?.status).toBe('InProgress');
    expect(next.cursor).toBe('job-0');
  });

  it('begin after the jobs that were dropped, so that nothing is skipped', () => {
    const small = {
      ...applyListing(EMPTY_STATE, [completed(3), completed(2)], [], 1).state,
      limit: 2
    };
    const { state } = applyChanges(small, changes([event(2, { job: completed(4) })]));
    expect([...state.jobs.keys()].sort()).toEqual(['job-3', 'job-4']);
    expect(state.cursor).toBe('job-3');
  });

  it('begin before another job when the one at their border was deleted', () => {
    const state = {
      ...applyListing(EMPTY_STATE, [completed(3), completed(2)], [], 1).state,
      cursor: 'job-2'
    };
    expect(removeJob(state, 'job-2').cursor).toBe('job-3');
    expect(removeJob(state, 'job-3').cursor).toBe('job-2');
  });
});

describe('views', () => {
  it('show running jobs oldest first and finished ones newest first', () => {
    const { state } = applyListing(
      EMPTY_STATE,
      [job(3), completed(1), job(2), completed(4)],
      [],
      1
    );
    expect(runningJobs(state).map(one => one.id)).toEqual(['job-2', 'job-3']);
    expect(finishedJobs(state).map(one => one.id)).toEqual(['job-4', 'job-1']);
  });

  it('show the pool that ends first at the top and those in use at the bottom', () => {
    const inUse = pool(1, { state: 'InUse', expires_at: null });
    const { state } = applyListing(EMPTY_STATE, [], [inUse, pool(3), pool(2)], 1);
    expect(livePools(state).map(one => one.id)).toEqual(['pool-2', 'pool-3', 'pool-1']);
  });
});

describe('extending', () => {
  it('counts from now, rounded up', () => {
    expect(extendedKeepAlive(pool(0, { expires_at: 2000 }), 900, 1900.5)).toBe(1000);
  });

  it('is not possible while a job uses the pool', () => {
    expect(extendedKeepAlive(pool(0, { expires_at: null }), 900, 1900)).toBeNull();
  });
});
