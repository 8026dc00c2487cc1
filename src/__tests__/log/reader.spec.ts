import { ApiError } from '../../api/errors';
import { LogReader } from '../../log/reader';
import { FakeLog } from '../fixtures/fakeLog';

const PIECE = 262_144;
const FAR = 4_000_000;

/** Wait for pending promises without advancing the clock. */
async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) {
    await Promise.resolve();
  }
}

async function later(milliseconds: number): Promise<void> {
  jest.advanceTimersByTime(milliseconds);
  await settled();
}

function rowsOf(reader: LogReader): string[] {
  return reader.window.rows.map(row => new TextDecoder().decode(row.bytes));
}

describe('the reader of a log', () => {
  let log: FakeLog;
  let reader: LogReader;

  beforeEach(() => {
    jest.useFakeTimers();
    log = new FakeLog();
    reader = new LogReader(log);
  });

  afterEach(() => {
    reader.dispose();
    jest.useRealTimers();
  });

  async function started(text = '', isFinal = false): Promise<void> {
    log = new FakeLog(text, isFinal);
    reader = new LogReader(log);
    reader.start();
    await settled();
    await later(250);
  }

  it('opens at the end and sends no more requests for a job that has ended', async () => {
    await started('one\ntwo\n', true);
    expect(log.asked).toEqual([{ host: '', attempt: 0, last: 131_072, limit: 131_072, wait: 0 }]);
    expect(rowsOf(reader)).toEqual(['one', 'two']);
    expect([reader.isEnded, reader.total]).toEqual([true, 8]);
    await later(60_000);
    expect(log.asked.length).toBe(1);
  });

  it('continues from its last byte until the end', async () => {
    await started('one\n');
    expect(log.asked[1]).toMatchObject({ offset: 4, wait: 20 });
    log.grow('two\n');
    await settled();
    expect(rowsOf(reader)).toEqual(['one', 'two']);
    await later(250);
    log.end();
    await settled();
    expect(reader.isEnded).toBe(true);
  });

  it('sends at most four requests a second during a flood of output', async () => {
    await started('one\n');
    const before = log.asked.length;
    for (let i = 0; i < 100; i++) {
      log.grow('x\n');
      await later(10);
    }
    expect(log.asked.length - before).toBeLessThanOrEqual(5);
    await later(1_000);
    expect(reader.window.rows.length).toBe(101);
  });

  it('skips to the end if it is far behind, and can still read the skipped bytes', async () => {
    await started('one\n');
    log.grow(
      'x'
        .repeat(99)
        .concat('\n')
        .repeat(FAR / 100)
    );
    await later(250);
    await later(250);
    await later(250);
    expect(reader.window.end).toBe(FAR + 4);
    expect(reader.window.start).toBeGreaterThan(FAR - PIECE);
    reader.earlier();
    await settled();
    expect(reader.window.start).toBeLessThan(FAR - PIECE);
  });

  it('reads back page by page to the first byte', async () => {
    await started('0123456789\n'.repeat(100_000), true);
    while (reader.window.start > 0) {
      const before = reader.window.start;
      reader.earlier();
      await later(250);
      expect(reader.window.start).toBeLessThan(before);
    }
    expect(rowsOf(reader)[0]).toBe('0123456789');
    reader.earlier();
    await later(250);
    expect(log.asked.every(query => query.limit <= PIECE)).toBe(true);
  });

  it('skips what a limit left out in both directions, without padding', async () => {
    const [head, zeros] = ['head\n[... left out ...]\n', '\0'.repeat(3_000_000)];
    await started();
    log = new FakeLog(`${head}${zeros}${`tail${'.'.repeat(95)}\n`.repeat(2_000)}`, true);
    log.gap = { start: head.length, end: head.length + zeros.length };
    reader = new LogReader(log);
    reader.start();
    await settled();
    await later(250);
    while (reader.window.start > 0) {
      const before = reader.window.start;
      reader.earlier();
      await later(250);
      expect(reader.window.start).toBeLessThan(before);
    }
    const rows = (): string[] => rowsOf(reader).slice(0, 3);
    expect(rows()).toEqual(['head', '[... left out ...]', `tail${'.'.repeat(95)}`]);
    expect(reader.window.rows.every(row => !row.bytes.includes(0))).toBe(true);
    expect(log.asked.length).toBeLessThan(6);

    reader.follow(false);
    reader.toPlace(log.gap.start - 1);
    reader.window.open(log.bytes.slice(0, log.gap.start), 0);
    reader.later();
    await later(250);
    expect(rows()).toEqual(['head', '[... left out ...]', `tail${'.'.repeat(95)}`]);
    expect(reader.window.rows[2].start).toBe(log.gap.end);
  });

  it('requests once what is before the first byte of a log whose beginning was left out', async () => {
    await started();
    log = new FakeLog(`${'\0'.repeat(5_000)}one\ntwo\n`, true);
    log.gap = { start: 0, end: 5_000 };
    reader = new LogReader(log);
    reader.changed.connect(() => reader.earlier());
    reader.start();
    for (let i = 0; i < 5; i++) {
      await later(250);
    }
    expect(rowsOf(reader)[rowsOf(reader).length - 1]).toBe('two');
    expect(log.asked.length).toBeLessThan(5);
  });

  it('follows across what a limit left out', async () => {
    await started('one\n');
    log.gap = { start: 4, end: 1_004 };
    log.grow(`${'\0'.repeat(1_000)}two\n`);
    await settled();
    expect(rowsOf(reader)).toEqual(['one', 'two']);
    expect(reader.window.end).toBe(1_008);
  });

  it('shows the lines around a place, and continues from there in both directions', async () => {
    await started(`${'x'.repeat(99)}\n`.repeat(22_000), true);
    reader.toPlace(1_100_000);
    await later(250);
    expect(reader.target).toEqual({ place: 1_100_000 });
    expect(reader.isFollowing).toBe(false);
    const { start, end } = reader.window;
    expect([start < 1_100_000, end > 1_100_000, end < reader.total]).toEqual([true, true, true]);
    reader.later();
    await later(250);
    expect([reader.window.start, reader.window.end]).toEqual([start, end + PIECE]);
    reader.toPlace(1_100_100);
    expect(reader.target).toEqual({ place: 1_100_100 });
    const asked = log.asked.length;
    reader.toEnd();
    await later(250);
    expect([reader.window.end, log.asked.length]).toEqual([reader.total, asked + 1]);
  });

  it('stays at a loaded place that replaces one that was being loaded', async () => {
    await started(`${'x'.repeat(99)}\n`.repeat(22_000), true);
    const { start } = reader.window;
    reader.toPlace(1_000);
    reader.toPlace(start + 500);
    await later(250);
    expect([reader.window.start, reader.target]).toEqual([start, { place: start + 500 }]);
  });

  it('shows the row of a place in a bar whose line is longer than one answer', async () => {
    const bar = '\r 12%|###   | 12/100'.repeat(15_000);
    const rest = 'next\n'.repeat(100_000);
    await started(`first\n${bar}\n${rest}`, true);
    const place = bar.length;
    reader.toPlace(place);
    await later(250);
    const { rows, start } = reader.window;
    expect(start).toBeLessThan(place);
    expect(new TextDecoder().decode(rows[reader.window.indexOf(place)].bytes)).toBe(
      ' 12%|###   | 12/100'
    );
  });

  it('only requests whether there is more while it does not follow', async () => {
    await started('one\n');
    reader.follow(false);
    await settled();
    log.grow('two\nthree\n');
    await settled();
    expect(rowsOf(reader)).toEqual(['one']);
    expect(reader.total).toBe(14);
    expect(log.asked[log.asked.length - 1]).toMatchObject({ offset: 4, limit: 1 });
    reader.follow(true);
    await later(250);
    expect(rowsOf(reader)).toEqual(['one', 'two', 'three']);
  });

  it('sends no requests while the view is hidden, and continues afterwards', async () => {
    await started('one\n');
    reader.pause();
    await settled();
    expect(log.waiting).toBe(0);
    const asked = log.asked.length;
    log.grow('two\n');
    await later(60_000);
    reader.earlier();
    reader.toEnd();
    reader.follow(false);
    reader.follow(true);
    await later(60_000);
    expect(log.asked.length).toBe(asked);
    reader.start();
    await later(250);
    expect(rowsOf(reader)).toEqual(['one', 'two']);
  });

  it('shows the run that restarted, and the one before on request', async () => {
    await started('a host that is lost\n');
    log.again('again\n');
    await settled();
    expect(log.asked[log.asked.length - 1]).toMatchObject({ attempt: 0, wait: 0 });
    await later(250);
    expect(rowsOf(reader)).toEqual(['again']);
    expect(reader.latest?.attempt).toBe(2);
    reader.choose({ host: 'algo-2', attempt: 1 });
    await later(250);
    const asked = log.asked.filter(ask => ask.host === 'algo-2' && ask.attempt === 1);
    expect(asked[0]).toMatchObject({ last: 131_072 });
  });

  it('has the hosts and runs to choose from before any bytes', async () => {
    log.hosts = ['algo-1', 'algo-2'];
    expect(reader.runs).toBeNull();
    reader.start();
    await settled();
    reader.choose({ host: 'algo-2', attempt: 0 });
    expect(reader.latest).toBeNull();
    expect(reader.runs).toEqual({ hosts: ['algo-1', 'algo-2'], attempts: 1 });
  });

  it('reads the file again if it became shorter', async () => {
    await started('one\ntwo\n');
    log.bytes = log.bytes.slice(0, 4);
    reader.follow(false);
    await settled();
    log.ring();
    await later(250);
    await later(250);
    expect(rowsOf(reader)).toEqual(['one']);
  });

  describe('where the server does not answer', () => {
    it('retries, less and less often, and drops the error when that succeeds', async () => {
      log.errors = Array.from({ length: 3 }, () => new ApiError(0, 'NetworkError', 'no route'));
      log.grow('one\n');
      reader.start();
      await settled();
      expect(reader.problem).toEqual({ kind: 'outage', message: 'no route', isAsleep: false });
      expect(log.asked.length).toBe(1);
      await later(1_000);
      expect(log.asked.length).toBe(2);
      await later(1_000);
      expect(log.asked.length).toBe(2);
      await later(1_000);
      expect(log.asked.length).toBe(3);
      await later(4_000);
      expect(reader.problem).toBeNull();
      expect(rowsOf(reader)).toEqual(['one']);
    });

    it('retries at once when the view is shown again, and not while it is hidden', async () => {
      log.errors = [new ApiError(502, '', 'Bad Gateway'), new ApiError(503, 'x', 'asleep')];
      reader.start();
      await settled();
      reader.pause();
      await later(60_000);
      expect(log.asked.length).toBe(1);
      reader.start();
      await settled();
      expect(log.asked.length).toBe(2);
      expect(reader.problem?.isAsleep).toBe(true);
    });

    it.each([
      [401, '', 'signedOut'],
      [403, '', 'signedOut'],
      [404, 'ResourceNotFound', 'gone'],
      [404, '', 'missing'],
      [400, 'ValidationException', 'refused']
    ])('does not ask again after %i %s', async (status, code, kind) => {
      log.errors = [new ApiError(status, code, 'no')];
      reader.start();
      await settled();
      expect(reader.problem?.kind).toBe(kind);
      await later(600_000);
      expect(log.asked.length).toBe(1);
      reader.pause();
      reader.start();
      await settled();
      expect(log.asked.length > 1).toBe(kind !== 'gone');
    });

    it.each([
      ['a 504', new ApiError(504, '', 'Gateway Time-out')],
      ['a 502 of Apache', new ApiError(502, '', 'Proxy Error')],
      ['a cut connection', new ApiError(0, 'NetworkError', 'Failed to fetch')]
    ])('waits shorter and shows no problem after %s at 5 s', async (_, cut) => {
      await started('one\n');
      const problems: unknown[] = [];
      reader.changed.connect(() => problems.push(reader.problem));
      log.errors = [cut];
      jest.advanceTimersByTime(5_000);
      log.ring();
      await settled();
      expect(log.asked.map(query => query.wait)).toEqual([0, 20, 2.5]);
      expect([reader.problem, log.waiting]).toEqual([null, 1]);
      log.ring();
      await settled();
      expect(log.asked[3].wait).toBe(3.125);
      log.grow('two\n');
      await settled();
      expect(rowsOf(reader)).toEqual(['one', 'two']);
      expect(problems.every(problem => problem === null)).toBe(true);
    });

    it('shows a server that is slow for every wait, and one that is gone', async () => {
      await started('one\n');
      for (let i = 0; i < 10; i++) {
        log.errors = [new ApiError(504, '', 'Gateway Time-out')];
        await later(2_000);
        log.ring();
        await settled();
      }
      expect(reader.problem?.kind).toBe('outage');
      reader.pause();
      log.errors = [];
      reader.start();
      await settled();
      expect([reader.problem, log.asked[log.asked.length - 1].wait]).toEqual([null, 20]);
      log.errors = [new ApiError(0, 'NetworkError', 'no route')];
      await later(500);
      log.ring();
      await settled();
      expect(reader.problem?.message).toBe('no route');
    });

    it('keeps what was read of a job that is deleted in the meantime', async () => {
      await started('one\n');
      log.errors = [new ApiError(404, 'ResourceNotFound', 'no job')];
      log.ring();
      await settled();
      expect(reader.problem?.kind).toBe('gone');
      expect(rowsOf(reader)).toEqual(['one']);
    });
  });
});
