import { ApiError, classifyFailure } from '../../api/errors';
import { pollInterval, retryDelay, shouldPollOnEvent } from '../../api/poller';

const lost = classifyFailure(new ApiError(0, '', 'gone'));
const loggedOut = classifyFailure(new ApiError(401, '', 'no'));
const broken = classifyFailure(new ApiError(502, '', 'Bad Gateway'));

describe('the pauses between tries', () => {
  it.each([
    [1, 2000],
    [2, 4000],
    [4, 16_000],
    [5, 30_000],
    [5000, 30_000]
  ])('after %d failures are about %d ms', (failures, pause) => {
    expect(retryDelay(failures, lost, 0.5)).toBe(pause);
    expect(retryDelay(failures, broken, 0.5)).toBe(pause);
  });

  it.each([
    [1, 30_000],
    [2, 60_000],
    [9, 300_000]
  ])('after %d failures are about %d ms where only a person can help', (failures, pause) => {
    expect(retryDelay(failures, loggedOut, 0.5)).toBe(pause);
    expect(retryDelay(failures, classifyFailure(new ApiError(404, '', '')), 0.5)).toBe(pause);
    const noRight = classifyFailure(new ApiError(403, 'AccessDeniedException', ''));
    expect(retryDelay(failures, noRight, 0.5)).toBe(pause);
  });

  it('keep many pages apart: their tries are spread over half of a pause', () => {
    const pauses = Array.from({ length: 101 }, (_, i) => retryDelay(5, lost, i / 100));
    expect([Math.min(...pauses), Math.max(...pauses)]).toEqual([22_500, 37_500]);
    expect(new Set(pauses).size).toBe(101);
    expect([pollInterval(false, 0), pollInterval(false, 1)]).toEqual([22_500, 37_500]);
    expect([pollInterval(true, 0), pollInterval(true, 1)]).toEqual([3_000, 5_000]);
  });

  it('are as long as the server asks, within reason', () => {
    const busy = classifyFailure(new ApiError(503, '', 'busy', 20));
    expect(retryDelay(1, busy, 0.5)).toBe(20_000);
    expect(retryDelay(5, busy, 0.5)).toBe(30_000);
    expect(retryDelay(1, classifyFailure(new ApiError(503, '', 'busy', 86_400)), 0.5)).toBe(
      300_000
    );
  });
});

describe('a word on the event bus', () => {
  it('is a reason to ask while all is well, and a sign of life while the server is lost', () => {
    expect(shouldPollOnEvent(null, 'job', false)).toBe(true);
    expect(shouldPollOnEvent(lost, 'job', false)).toBe(true);
  });

  it('is none while the answer would be the same', () => {
    expect(shouldPollOnEvent(loggedOut, 'job', false)).toBe(false);
    expect(shouldPollOnEvent(loggedOut, 'reset', false)).toBe(false);
    expect(shouldPollOnEvent(broken, 'job', false)).toBe(false);
    expect(shouldPollOnEvent(broken, 'reset', false)).toBe(true);
  });

  it('is one for a hidden page, which does not poll by itself', () => {
    expect(shouldPollOnEvent(broken, 'job', true)).toBe(true);
    expect(shouldPollOnEvent(loggedOut, 'job', true)).toBe(false);
  });
});
