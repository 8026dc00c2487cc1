import { ApiError, troubleOf } from '../../api/errors';
import { beat, isReason, pauseAfter } from '../../api/poller';

const lost = troubleOf(new ApiError(0, '', 'gone'));
const loggedOut = troubleOf(new ApiError(401, '', 'no'));
const broken = troubleOf(new ApiError(502, '', 'Bad Gateway'));

describe('the pauses between tries', () => {
  it.each([
    [1, 2000],
    [2, 4000],
    [4, 16_000],
    [5, 30_000],
    [5000, 30_000]
  ])('after %d failures are about %d ms', (failures, pause) => {
    expect(pauseAfter(failures, lost, 0.5)).toBe(pause);
    expect(pauseAfter(failures, broken, 0.5)).toBe(pause);
  });

  it.each([
    [1, 30_000],
    [2, 60_000],
    [9, 300_000]
  ])('after %d failures are about %d ms where only a person can help', (failures, pause) => {
    expect(pauseAfter(failures, loggedOut, 0.5)).toBe(pause);
    expect(pauseAfter(failures, troubleOf(new ApiError(404, '', '')), 0.5)).toBe(pause);
    const noRight = troubleOf(new ApiError(403, 'AccessDeniedException', ''));
    expect(pauseAfter(failures, noRight, 0.5)).toBe(pause);
  });

  it('keep many pages apart: their tries are spread over half of a pause', () => {
    const pauses = Array.from({ length: 101 }, (_, i) => pauseAfter(5, lost, i / 100));
    expect([Math.min(...pauses), Math.max(...pauses)]).toEqual([22_500, 37_500]);
    expect(new Set(pauses).size).toBe(101);
    expect([beat(0), beat(1)]).toEqual([15_000, 25_000]);
  });

  it('are as long as the server asks, within reason', () => {
    const busy = troubleOf(new ApiError(503, '', 'busy', 20));
    expect(pauseAfter(1, busy, 0.5)).toBe(20_000);
    expect(pauseAfter(5, busy, 0.5)).toBe(30_000);
    expect(pauseAfter(1, troubleOf(new ApiError(503, '', 'busy', 86_400)), 0.5)).toBe(300_000);
  });
});

describe('a word on the event bus', () => {
  it('is a reason to ask while all is well, and a sign of life while the server is lost', () => {
    expect([isReason(null, 'job'), isReason(lost, 'job')]).toEqual([true, true]);
  });

  it('is none while the answer would be the same', () => {
    expect([isReason(loggedOut, 'job'), isReason(loggedOut, 'reset')]).toEqual([false, false]);
    expect([isReason(broken, 'job'), isReason(broken, 'reset')]).toEqual([false, true]);
  });
});
