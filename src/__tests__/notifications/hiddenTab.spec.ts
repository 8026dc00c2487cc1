import type { Event } from '@jupyterlab/services';
import { Stream } from '@lumino/signaling';

import type { ApiClient } from '../../api/client';
import { CHANGE_SCHEMA } from '../../model/changeEvent';
import { JobsModel } from '../../model/jobsModel';
import { changes, completed, event, job } from '../fixtures/examples';
import { Page } from '../fixtures/fakeBrowser';

const hints = [event(1, { job: job(1) }), event(2, { job: completed(1) })];

function answered<T>(body: T): Promise<{ body: T; now: number }> {
  return Promise.resolve({ body, now: 1000 });
}

describe('the model of a hidden tab', () => {
  it('reads what changes a status, and leaves progress until somebody looks', async () => {
    const asked: number[] = [];
    const api = {
      controller: () => answered({ running: true, version: '1', seq: 0 }),
      jobs: () => answered({ jobs: [job(1)] }),
      pools: () => answered({ pools: [] }),
      changes: (since: number) => {
        asked.push(since);
        return answered(changes(hints.filter(one => one.seq > since)));
      }
    };
    const bus = new Stream<Event.IManager, Event.Emission>({} as Event.IManager);
    const page = new Page();
    const model = new JobsModel({
      api: api as unknown as ApiClient,
      events: bus,
      page,
      clock: () => 1000,
      newId: () => 'again'
    });
    const ended: string[] = [];
    model.ended.connect((_, jobs) => ended.push(...jobs.map(one => one.id)));
    await model.refresh();
    page.turn('hidden');
    const emitEvent = (seq: number, status: string): void =>
      bus.emit({ schema_id: CHANGE_SCHEMA, seq, kind: 'job', id: 'job-1', status });
    emitEvent(1, 'InProgress');
    await new Promise(resolve => setTimeout(resolve));
    expect(asked).toEqual([]);
    emitEvent(2, 'Completed');
    await new Promise(resolve => setTimeout(resolve));
    expect(asked).toEqual([0]);
    expect(ended).toEqual(['job-1']);
    page.turn('visible');
    await new Promise(resolve => setTimeout(resolve));
    expect(asked).toEqual([0, 2]);
    model.dispose();
  });
});
