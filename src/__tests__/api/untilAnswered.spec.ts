import { ApiError } from '../../api/errors';
import { untilAnswered } from '../../api/untilAnswered';

const TIMEOUT = new ApiError(504, '', 'Gateway Time-out');
const BAD_GATEWAY = new ApiError(502, '', 'Bad Gateway');

describe('a request that is repeated until it is answered', () => {
  let now = 0;
  let pauses: number[] = [];
  let sent = 0;

  const clock = {
    now: () => now,
    sleep: (milliseconds: number) => {
      pauses.push(milliseconds);
      now += milliseconds;
      return Promise.resolve();
    }
  };

  beforeEach(() => {
    now = 0;
    pauses = [];
    sent = 0;
  });

  /** Fail with some errors in turn, each after some seconds, then answer. */
  function failing(seconds: number, ...reasons: ApiError[]): () => Promise<string> {
    return () => {
      now += seconds * 1000;
      const reason = reasons[sent++];
      return reason ? Promise.reject(reason) : Promise.resolve('answer');
    };
  }

  it('is sent again at once after a read timeout of a proxy', async () => {
    expect(await untilAnswered(failing(20, TIMEOUT, TIMEOUT), clock)).toBe('answer');
    expect([sent, pauses]).toEqual([3, []]);
  });

  it('is sent ten times at most', async () => {
    const always = Array<ApiError>(20).fill(TIMEOUT);
    await expect(untilAnswered(failing(20, ...always), clock)).rejects.toBe(TIMEOUT);
    expect([sent, pauses]).toEqual([10, []]);
  });

  it('waits longer each time where the proxy fails at once, and gives up soon', async () => {
    const always = Array<ApiError>(20).fill(TIMEOUT);
    await expect(untilAnswered(failing(0, ...always), clock)).rejects.toBe(TIMEOUT);
    expect([sent, pauses]).toEqual([4, [500, 1000, 2000]]);
  });

  it('is sent twice where the connection is lost, and once where the server refuses', async () => {
    await expect(untilAnswered(failing(0, BAD_GATEWAY, BAD_GATEWAY), clock)).rejects.toBe(
      BAD_GATEWAY
    );
    expect([sent, pauses]).toEqual([2, [500]]);
    sent = 0;
    const refusal = new ApiError(422, 'Refused', 'no');
    await expect(untilAnswered(failing(0, refusal), clock)).rejects.toBe(refusal);
    expect(sent).toBe(1);
  });
});
