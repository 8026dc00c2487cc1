import { CHANGE_SCHEMA, readAfterEvent } from '../../model/changeEvent';
import { applyFailure } from '../../state/connectionState';
import { applyListing, EMPTY_STATE, type IState } from '../../state/state';
import { job } from '../fixtures/examples';

const SEQ = 5;
const listed = applyListing(EMPTY_STATE, [job(1)], [], SEQ).state;

function failed(kind: 'broken' | 'loggedOut'): IState {
  return applyFailure(listed, { kind, status: 500, message: '', retryAfter: 0 });
}

function read(fields: object, isHidden = false, state: IState = listed): string {
  return readAfterEvent({ schema_id: CHANGE_SCHEMA, seq: SEQ + 1, ...fields }, state, isHidden);
}

describe('after an event', () => {
  it('what changed is read if the event is newer than the state', () => {
    expect(read({ kind: 'job', id: 'job-1', status: 'InProgress' })).toBe('changes');
    expect(read({ kind: 'job', id: 'job-1', status: 'Completed', seq: SEQ })).toBe('nothing');
    expect(read({ kind: 'pool', id: 'pool-1', seq: 'text' })).toBe('nothing');
  });

  it('the whole list is read if the numbers begin again', () => {
    expect(read({ kind: 'reset', seq: 0 })).toBe('list');
    expect(read({ kind: 'reset', seq: 0 }, true)).toBe('list');
  });

  it('nothing is read for another schema', () => {
    expect(read({ kind: 'reset', schema_id: 'other' })).toBe('nothing');
  });

  it('a page without a list reads, whatever the number', () => {
    expect(read({ kind: 'job', id: 'job-1', seq: 0 }, false, EMPTY_STATE)).toBe('changes');
  });

  it('a hidden page reads what is about more than progress', () => {
    expect(read({ kind: 'job', id: 'job-1', status: 'InProgress' }, true)).toBe('nothing');
    expect(read({ kind: 'job', id: 'job-1', status: 'Completed' }, true)).toBe('changes');
    expect(read({ kind: 'job', id: 'job-2', status: 'InProgress' }, true)).toBe('changes');
    expect(read({ kind: 'pool', id: 'pool-1', status: 'Available' }, true)).toBe('changes');
  });

  it('a page that failed reads only after a reset, and one without access not even then', () => {
    expect(read({ kind: 'job', id: 'job-2' }, false, failed('broken'))).toBe('nothing');
    expect(read({ kind: 'reset' }, false, failed('broken'))).toBe('list');
    expect(read({ kind: 'reset' }, false, failed('loggedOut'))).toBe('nothing');
  });

  it('a hidden page that failed reads after an event, since it does not poll by itself', () => {
    const ended = { kind: 'job', id: 'job-1', status: 'Completed' };
    expect(read(ended, true, failed('broken'))).toBe('changes');
    expect(read(ended, true, failed('loggedOut'))).toBe('nothing');
  });
});
