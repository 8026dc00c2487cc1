import { parseSpans } from '../../log/ansi';
import { LogWindow, MAX_BYTES, MAX_ROWS } from '../../log/logWindow';
import { MAX_ROW_BYTES } from '../../log/rows';
import { bytesOf } from '../fixtures/fakeLog';

function textOf(window: LogWindow): string[] {
  return window.rows.map(row =>
    parseSpans(row, null)
      .map(span => span.text)
      .join('')
  );
}

/** A window that got these bytes in pieces of a size. */
function inPieces(bytes: Uint8Array, size: number): LogWindow {
  const window = new LogWindow();
  for (let at = 0; at < bytes.length; at += size) {
    window.append(bytes.subarray(at, at + size));
  }
  return window;
}

function tiles(window: LogWindow): void {
  const { rows } = window;
  expect(rows.slice(1).filter((row, index) => row.start !== rows[index].end)).toEqual([]);
  if (rows.length > 0) {
    expect([window.start, window.end]).toEqual([rows[0].start, rows[rows.length - 1].end]);
  }
}

const MIXED = bytesOf(
  'one\r\n\ntwo ☃ snow\n10%\r20%\r30%\n\u001b[31mred\u001b[0m\n' +
    `${'ü'.repeat(MAX_ROW_BYTES)}\nlast\r40%\r`
);

describe('the rows of a log', () => {
  it.each([1, 2, 3, 7, 100, 100_000])('are the same in pieces of %i bytes', size => {
    const window = inPieces(MIXED, size);
    expect(textOf(window).filter(row => !row.startsWith('ü'))).toEqual([
      'one',
      '',
      'two ☃ snow',
      '30%',
      'red',
      '40%'
    ]);
    expect(textOf(window).join('')).toContain('ü'.repeat(MAX_ROW_BYTES));
    expect(window.isText).toBe(true);
    tiles(window);
  });

  it('show of a bar what a terminal shows in the end', () => {
    const window = new LogWindow();
    window.append(bytesOf('10%\r'));
    expect(textOf(window)).toEqual(['10%']);
    window.append(bytesOf('20%'));
    expect(textOf(window)).toEqual(['20%']);
    window.append(bytesOf('\r\n'));
    window.append(bytesOf('next'));
    expect(textOf(window)).toEqual(['20%', 'next']);
    tiles(window);
  });

  it('keep of a flood of bars one row and few bytes', () => {
    const window = inPieces(bytesOf('\r 12%|###   | 12/100'.repeat(100_000)), 65_536);
    expect(textOf(window)).toEqual([' 12%|###   | 12/100']);
    expect(window.rows[0].bytes.length).toBeLessThan(30);
    expect([window.start, window.end]).toEqual([0, 2_000_000]);
  });

  it('keep no more than themselves of the piece in which they came', () => {
    const window = new LogWindow();
    window.append(
      bytesOf(`${'\r 12%|###   |'.repeat(20_000)}\nshort\n${'x'.repeat(20_000)}\nlast`)
    );
    const { rows } = window;
    expect(rows.length).toBe(6);
    expect(rows.map(row => row.bytes.buffer.byteLength)).toEqual(rows.map(row => row.bytes.length));
  });

  it('cut a line without an end, and say where it goes on', () => {
    const window = inPieces(new Uint8Array(10 * MAX_ROW_BYTES + 5).fill(120), 1_000);
    const { rows } = window;
    expect(rows.length).toBe(11);
    expect(rows.map(row => row.goesOn)).toEqual([...Array<boolean>(10).fill(true), false]);
    expect(rows.map(row => row.isContinued)).toEqual([false, ...Array<boolean>(10).fill(true)]);
    tiles(window);
  });

  it('are read backwards page by page as they are forwards', () => {
    const short = (rows: string[]): string =>
      rows.join('').replace(/ü+/g, all => `${all.length} times ü, `);
    for (const size of [64, 1_001, 50_000]) {
      const forward = short(textOf(inPieces(MIXED, 50_000)));
      const window = new LogWindow();
      const open = MIXED.length - 40;
      window.open(MIXED.subarray(open), open);
      while (window.start > 0) {
        const begin = Math.max(0, window.start - size);
        const before = window.start;
        window.prepend(MIXED.subarray(begin, before), begin);
        if (window.start >= before) {
          throw new Error(`Nothing was gained before ${before}`);
        }
      }
      tiles(window);
      expect(window.isText).toBe(true);
      expect(short(textOf(window))).toBe(forward);
    }
  });

  it('begin with a whole line, and of one that is longer than all with a whole character', () => {
    const window = new LogWindow();
    window.open(bytesOf('half a line\nwhole\n'), 1_000);
    expect(textOf(window)).toEqual(['whole']);
    expect(window.start).toBe(1_012);
    window.open(bytesOf('☃☃').subarray(1), 1_000);
    expect(textOf(window)).toEqual(['☃']);
    expect(window.rows[0].isContinued).toBe(true);
    expect(window.start).toBe(1_002);
  });

  it('are bounded, and given up where one is not', () => {
    const line = bytesOf(`${'x'.repeat(9)}\n`.repeat(5_000));
    const window = new LogWindow();
    for (let i = 0; i < 6; i++) {
      window.append(line);
    }
    expect(window.rows.length).toBe(MAX_ROWS);
    expect([window.start, window.end]).toEqual([100_000, 300_000]);
    window.prepend(line, 50_000);
    expect(window.rows.length).toBe(MAX_ROWS);
    expect([window.start, window.end]).toEqual([50_010, 250_010]);
    window.append(line);
    expect([window.start, window.end]).toEqual([100_010, 300_010]);
    tiles(window);
    const wide = inPieces(new Uint8Array(3 * MAX_BYTES).fill(120), 262_144);
    expect(wide.end - wide.start).toBeLessThanOrEqual(MAX_BYTES);
    expect(wide.end).toBe(3 * MAX_BYTES);
  });

  it('are given up far from a place that one goes to', () => {
    const lines = bytesOf('1234\n'.repeat(50_000));
    const window = new LogWindow();
    for (const [place, first, last] of [
      [0, 0, 100_000],
      [125_000, 75_000, 175_000],
      [249_999, 150_000, 250_000]
    ]) {
      window.open(lines, 0, place);
      expect([window.start, window.end]).toEqual([first, last]);
      tiles(window);
    }
  });

  it('know the row of a byte', () => {
    const window = new LogWindow();
    window.open(bytesOf('x\nab\ncd\n'), 10);
    expect([0, 12, 14, 15, 17, 99].map(place => window.indexOf(place))).toEqual([0, 0, 0, 1, 1, 1]);
  });

  it('show what is no text with a sign for it, and know it', () => {
    const window = new LogWindow();
    window.append(new Uint8Array([65, 255, 254, 0, 7, 8, 9, 66, 10]));
    expect(textOf(window)).toEqual(['A���\tB']);
    expect(window.isText).toBe(false);
    const random = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 7919) % 256);
    const noise = inPieces(random, 1_000);
    expect(noise.isText).toBe(false);
    tiles(noise);
  });
});

describe('the colours of a row', () => {
  const spans = (text: string): [string, string, string | undefined][] => {
    const window = new LogWindow();
    window.append(bytesOf(text));
    return parseSpans(window.rows[window.rows.length - 1], null).map(span => [
      span.text,
      span.className,
      span.color ?? span.background
    ]);
  };

  it('have the names that they have in a notebook', () => {
    expect(spans('a\u001b[31mb\u001b[1mc\u001b[0md\u001b[92;44me')).toEqual([
      ['a', '', undefined],
      ['b', 'ansi-red-fg', undefined],
      ['c', 'ansi-bold ansi-red-intense-fg', undefined],
      ['d', '', undefined],
      ['e', 'ansi-green-intense-fg ansi-blue-bg', undefined]
    ]);
  });

  it('may be any of 256 or of all', () => {
    expect(spans('\u001b[38;5;208ma\u001b[38;5;240mb\u001b[0;48;2;1;2;3mc\u001b[38:5:9md')).toEqual(
      [
        ['a', '', 'rgb(255, 135, 0)'],
        ['b', '', 'rgb(88, 88, 88)'],
        ['c', '', 'rgb(1, 2, 3)'],
        ['d', 'ansi-red-intense-fg', 'rgb(1, 2, 3)']
      ]
    );
  });

  it('hold over lines until they end', () => {
    expect(spans('\u001b[31mone\ntwo')).toEqual([['two', 'ansi-red-fg', undefined]]);
    expect(spans('\u001b[31mone\u001b[m\ntwo')).toEqual([['two', '', undefined]]);
    expect(spans('\u001b[31m\u001b[0;32mone\ntwo')).toEqual([['two', 'ansi-green-fg', undefined]]);
    expect(spans(`${'\u001b[1m\u001b[3m'.repeat(500)}one\ntwo`)).toEqual([['two', '', undefined]]);
  });

  it('are all that orders to a terminal do', () => {
    const orders =
      '\u001b]0;title\u0007a\u001b[2Kb\u001b[1;1Hc\u001b[?25ld\u001b(Be\u001b]8;;http://x\u001b\\f\u001b[';
    expect(spans(orders)).toEqual([['abcdef', '', undefined]]);
  });

  it('never make a page of what a job wrote', () => {
    expect(spans('<img src=x onerror=alert(1)>')).toEqual([
      ['<img src=x onerror=alert(1)>', '', undefined]
    ]);
  });
});

describe('words that are looked for', () => {
  const marked = (text: string, words: string, matchCase = false): string => {
    const window = new LogWindow();
    window.append(bytesOf(text));
    return parseSpans(window.rows[0], { text: words, matchCase })
      .map(span => (span.isHit ? `[${span.text}]` : span.text))
      .join('');
  };

  it('are marked wherever they are, over colours too', () => {
    expect(marked('Loss: loss', 'loss')).toBe('[Loss]: [loss]');
    expect(marked('Loss: loss', 'loss', true)).toBe('Loss: [loss]');
    expect(marked('e\u001b[31mrr\u001b[0mor!', 'error')).toBe('[e][rr][or]!');
    expect(marked('İ größe', 'GRÖSSE')).toBe('İ größe');
    expect(marked('a.b', '.')).toBe('a[.]b');
  });
});
