import { codeOrigin, diffCode, findCell, stripMagic, trimBlankLines } from '../../jobView/codeDiff';

describe('where the code of a job comes from', () => {
  it.each([
    [{ filename: '<digits>', source: '\nx = 1' }, 'cell'],
    [{ filename: '<digits>', source: 'x = 1' }, 'program'],
    [{ filename: '/lab/train.py', source: '\nx = 1' }, 'file'],
    [{ filename: '', source: 'x = 1' }, 'program']
  ])('%j is a %s', (spec, origin) => {
    expect(codeOrigin(spec)).toBe(origin);
  });
});

describe('the code of a cell', () => {
  it.each([
    ['%%train\nx = 1\n', { code: 'x = 1', first: 2 }],
    ['%%train --hp lr=1 \\\n  --as job\n\nx = 1', { code: 'x = 1', first: 4 }],
    ['\n%%train\nx = 1', { code: 'x = 1', first: 3 }],
    ['%%train\r\nx = 1\r\ny = 2\r\n', { code: 'x = 1\ny = 2', first: 2 }],
    ['%%train', { code: '', first: 2 }],
    ['%%train \\', { code: '', first: 3 }],
    ['x = 1  \n\n', { code: 'x = 1', first: 1 }],
    ['', { code: '', first: 1 }]
  ])('%j without its magic', (cell, code) => {
    expect(stripMagic(cell)).toEqual(code);
  });

  it('has the same numbers as the code that the magic pushed down', () => {
    const [cell, source] = ['%%train \\\n  -k 10m\nx = 1\ny = 2', '\n\nx = 1\ny = 2'];
    expect(stripMagic(cell)).toEqual(trimBlankLines(source));
  });
});

describe('the cell of a job', () => {
  const cells = [
    { id: 'a', source: '%%train\nx = 1' },
    { id: 'b', source: '%%process\nx = 2' },
    { id: 'c', source: '%%train -k 5m\nx = 2' }
  ];

  it('is the one with its id, whatever stands in it now', () => {
    expect(findCell(cells, { cell_id: 'b', source: '\nx = 1' })).toBe(cells[1]);
    expect(findCell(cells, { cell_id: 'gone', source: '\nx = 1' })).toBeNull();
  });

  it('is without an id the only one with the same code', () => {
    expect(findCell(cells, { cell_id: '', source: '\nx = 1\n' })).toBe(cells[0]);
    expect(findCell(cells, { cell_id: '', source: '\nx = 2' })).toBeNull();
    expect(findCell(cells, { cell_id: '', source: '\nx = 3' })).toBeNull();
  });
});

describe('what differs', () => {
  it('is nothing where only blank lines at the ends differ', async () => {
    expect(await diffCode(trimBlankLines('\n\nx = 1\n'), trimBlankLines('x = 1'))).toEqual([]);
  });

  it('is told in lines with the numbers that the notebook shows', async () => {
    const lines = await diffCode(
      trimBlankLines('\n\nx = 1\ny = 2'),
      trimBlankLines('\nx = 1\ny = 3')
    );
    expect(lines).toEqual(['@@ -3,2 +2,2 @@', ' x = 1', '-y = 2', '+y = 3']);
  });
});
