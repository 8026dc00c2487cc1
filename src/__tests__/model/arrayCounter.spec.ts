import { ApiError } from '../../api/errors';
import { ArrayCounter } from '../../model/arrayCounter';

describe('the counts of arrays', () => {
  let page: { visibilityState: DocumentVisibilityState };
  let counts: ArrayCounter;
  let asked: string[];
  let failure: ApiError | null;

  beforeEach(() => {
    jest.useFakeTimers();
    page = { visibilityState: 'visible' };
    [asked, failure] = [[], null];
    const count = async (id: string): Promise<void> => {
      asked.push(id);
      await Promise.resolve();
      if (failure) {
        throw failure;
      }
    };
    counts = new ArrayCounter(count, page, () => 0.5);
  });

  afterEach(() => {
    counts.dispose();
    jest.useRealTimers();
  });

  const passed = (milliseconds: number): Promise<void> =>
    jest.advanceTimersByTimeAsync(milliseconds);

  it('are made at once where nothing is known, else once a second', async () => {
    counts.markChanged('a', false);
    expect(asked).toEqual(['a']);
    await passed(0);
    for (let i = 0; i < 100; i++) {
      counts.markChanged('a', true);
      await passed(10);
    }
    expect(asked).toEqual(['a', 'a']);
  });

  it('of one array are never on their way twice: the older answer may come last', async () => {
    let open = (): void => undefined;
    const slow = (id: string): Promise<void> => {
      asked.push(id);
      return new Promise(resolve => (open = resolve));
    };
    counts = new ArrayCounter(slow, page, () => 0.5);
    counts.markChanged('a', true);
    await passed(1000);
    counts.markChanged('a', true);
    await passed(5000);
    expect(asked).toEqual(['a']);
    open();
    await passed(1000);
    expect(asked).toEqual(['a', 'a']);
  });

  it('wait until somebody looks', async () => {
    page.visibilityState = 'hidden';
    counts.markChanged('a', false);
    await passed(60_000);
    expect(asked).toEqual([]);
    page.visibilityState = 'visible';
    counts.countPending();
    expect(asked).toEqual(['a']);
  });

  it('are not made again of an array that the server does not know', async () => {
    failure = new ApiError(404, 'ResourceNotFound', 'There is no array a.');
    counts.markChanged('a', false);
    await passed(600_000);
    expect(asked).toEqual(['a']);
  });

  it.each([
    [404, ''],
    [502, ''],
    [503, 'ServiceUnavailable']
  ])('are made again after %d %p, later each time, until they are there', async (status, code) => {
    failure = new ApiError(status, code, 'no');
    counts.markChanged('a', false);
    await passed(1_900);
    expect(asked.length).toBe(1);
    await passed(298_100);
    expect(asked.length).toBeGreaterThan(2);
    expect(asked.length).toBeLessThan(15);
    failure = null;
    await passed(300_000);
    const count = asked.length;
    await passed(600_000);
    expect(asked.length).toBe(count);
  });

  it('are made no more after the end of the page, whatever was under way', async () => {
    failure = new ApiError(502, '', 'no');
    counts.markChanged('a', false);
    counts.dispose();
    await passed(600_000);
    expect(asked).toEqual(['a']);
  });
});
