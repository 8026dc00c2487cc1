import { nullTranslator } from '@jupyterlab/translation';

import { ApiError } from '../../api/errors';
import { formatMatchCount } from '../../log/logToolbar';
import { LogSearch } from '../../log/search';
import { FakeLog } from '../fixtures/fakeLog';

const trans = nullTranslator.load('jupyter_smx');
const WHICH = { host: '', attempt: 1 };
const FAR = Number.MAX_SAFE_INTEGER;

async function settled(): Promise<void> {
  for (let i = 0; i < 60; i++) {
    await Promise.resolve();
  }
}

describe('the search in a log', () => {
  let log: FakeLog;
  let search: LogSearch;

  function made(text: string): void {
    log = new FakeLog(text);
    search = new LogSearch(log);
  }

  async function found(text: string, from = FAR): Promise<void> {
    search.find({ text, matchCase: false }, WHICH, from);
    await settled();
  }

  const words = (): string => formatMatchCount(search, trans);

  beforeEach(() => made(`${'a'.repeat(2_999)}\nb${'a'.repeat(2_999)}\nb${'a'.repeat(998)}\nb`));
  afterEach(() => search.dispose());

  it('searches all of it, part by part from its end', async () => {
    await found('b');
    expect(log.searched.map(query => query.before)).toEqual([
      undefined, 6_002, 5_002, 4_002, 3_002, 2_002, 1_002, 2
    ]); // prettier-ignore
    expect([search.count, search.isDone, search.place]).toEqual([3, true, 7_001]);
    expect(words()).toBe('3 of 3');
  });

  it('steps from match to match, and wraps around', async () => {
    await found('b');
    const places = [];
    for (let i = 0; i < 4; i++) {
      search.next();
      places.push(search.place);
    }
    expect(places).toEqual([3_000, 6_001, 7_001, 3_000]);
    expect(words()).toBe('1 of 3');
    search.previous();
    expect(search.place).toBe(7_001);
  });

  it('begins with the last match before the visible place', async () => {
    await found('b', 5_000);
    expect([search.place, words()]).toEqual([3_000, '1 of 3']);
    await found('b', 10);
    expect(search.place).toBe(3_000);
  });

  it('reports its progress, and that nothing was found', async () => {
    search.find({ text: 'b', matchCase: false }, WHICH, FAR);
    await Promise.resolve();
    await Promise.resolve();
    await Promise.resolve();
    expect(words()).toBe('1 line, 14 % searched');
    await found('c');
    expect(words()).toBe('No matches');
    await found('');
    expect(words()).toBe('');
    expect(search.words).toBeNull();
  });

  it('searches new lines, and stays at its match', async () => {
    await found('b');
    log.grow('\naab');
    search.resume(log.bytes.length);
    await settled();
    expect([search.count, search.place, words()]).toEqual([4, 7_001, '3 of 4']);
    const asked = log.searched.length;
    search.resume(log.bytes.length);
    await settled();
    expect(log.searched.length).toBe(asked);
  });

  it('counts a bar that is drawn again once, and stays at it', async () => {
    made('loss 3\nloss 2\n 10% loss 1');
    await found('loss');
    expect([search.place, words()]).toEqual([19, '3 of 3']);
    for (let percent = 11; percent < 14; percent++) {
      log.grow(`\r ${percent}% loss 1`);
      search.resume(log.bytes.length);
      await settled();
      expect([search.place, words()]).toEqual([log.bytes.length - 6, '3 of 3']);
    }
    search.previous();
    log.grow('\r 14% loss 1\nloss 0');
    search.resume(log.bytes.length);
    await settled();
    expect([search.place, words()]).toEqual([7, '2 of 4']);
  });

  it('drops a line that was drawn over and has the words no more', async () => {
    made('loss 2\n 10% loss 1');
    await found('loss');
    log.grow('\r 11%');
    search.resume(log.bytes.length);
    await settled();
    expect([search.place, words()]).toEqual([0, '1 of 1']);
    made('10% loss 1');
    await found('loss');
    log.grow('\r 11%');
    search.resume(log.bytes.length);
    await settled();
    expect([search.place, words()]).toEqual([null, 'No matches']);
  });

  it('searches what is appended while it runs, however much that is', async () => {
    search.find({ text: 'b', matchCase: false }, WHICH, FAR);
    await Promise.resolve();
    const more = `\n${'b\n'.repeat(10)}${'a'.repeat(100_000)}`;
    log.grow(more);
    search.resume(log.bytes.length);
    for (let i = 0; i < 20; i++) {
      await settled();
    }
    expect([search.count, search.isDone]).toEqual([13, true]);
    const asked = log.searched.length;
    search.resume(log.bytes.length);
    await settled();
    expect(log.searched.length).toBe(asked);
  });

  it('stops while the view is hidden, and continues from there', async () => {
    search.find({ text: 'b', matchCase: false }, WHICH, FAR);
    await Promise.resolve();
    search.pause();
    await settled();
    const asked = log.searched.length;
    expect([asked, search.isDone]).toEqual([1, false]);
    search.resume();
    await settled();
    expect([search.count, search.isDone]).toEqual([3, true]);
  });

  it('ignores an answer to other words', async () => {
    search.find({ text: 'a', matchCase: false }, WHICH, FAR);
    await found('b');
    expect(search.count).toBe(3);
  });

  it('says why it stopped, and can continue', async () => {
    const find = log.find.bind(log);
    log.find = () => Promise.reject(new ApiError(502, '', 'Bad Gateway'));
    await found('b');
    expect(words()).toBe('Search stopped: Bad Gateway');
    log.find = find;
    search.resume();
    await settled();
    expect(words()).toBe('3 of 3');
  });
});
