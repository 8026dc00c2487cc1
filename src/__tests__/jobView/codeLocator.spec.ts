import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';

import { CodeLocator } from '../../jobView/codeLocator';
import { record, SPEC } from '../fixtures/jobRecords';

interface ICell {
  model: { id: string };
}

interface IPanel {
  id: string;
  context: { path: string };
  isDisposed: boolean;
  content: { activeCellIndex: number; scrollToCell: jest.Mock; widgets: ICell[] };
}

function cell(id: string, source: string): ICell {
  const sharedModel = { getSource: () => source };
  const model = { id, sharedModel, contentChanged: new Signal({}) };
  return { model };
}

/** An open notebook with cells, as far as anybody here looks at one. */
function panel(path: string, cells: Record<string, string>): IPanel {
  const content = {
    activeCellIndex: 0,
    scrollToCell: jest.fn(() => Promise.resolve()),
    widgets: Object.entries(cells).map(([id, source]) => cell(id, source))
  };
  const context = { path: `RTC:${path}` };
  return { id: `panel-${path}`, isDisposed: false, context, content };
}

function origins(panels: object[], files: Record<string, unknown> = {}) {
  const get = jest.fn((path: string) =>
    path in files
      ? Promise.resolve({ path, content: files[path] })
      : Promise.reject(new Error('Not Found'))
  );
  const activateById = jest.fn();
  const app = {
    shell: { activateById },
    serviceManager: { contents: { get, localPath: (path: string) => path.replace('RTC:', '') } }
  } as unknown as JupyterFrontEnd;
  const notebooks = {
    forEach: (visit: (one: object) => void) => panels.forEach(visit)
  } as unknown as INotebookTracker;
  return { found: new CodeLocator(app, notebooks), get, activateById };
}

const place = { exists: true, is_folder: false, shown_as: 'a.ipynb' };
const PLACES = { '/lab/a.ipynb': place };

describe('the cell of a job', () => {
  it('is found by its id in an open notebook, also in one that was renamed', async () => {
    const other = panel('b.ipynb', { 'cell-2': 'y' });
    const renamed = panel('renamed.ipynb', { 'cell-2': 'y', 'cell-1': '%%train\nx = 2' });
    const { found, get, activateById } = origins([other, renamed]);
    const now = await found.cell(record(), {});
    expect(now).toMatchObject({ text: '%%train\nx = 2', path: 'renamed.ipynb' });
    expect(get).not.toHaveBeenCalled();
    (now as { reveal: () => void }).reveal();
    expect(activateById).toHaveBeenCalledWith('panel-renamed.ipynb');
    expect(renamed.content.activeCellIndex).toBe(1);
  });

  it('is gone to where it stands when somebody goes', async () => {
    const own = panel('a.ipynb', { 'cell-1': 'x', 'cell-2': 'y' });
    const { found, activateById } = origins([own]);
    const { reveal } = (await found.cell(record(), {})) as { reveal: () => void };
    own.content.widgets.unshift(cell('cell-0', 'new'));
    reveal();
    expect(own.content.activeCellIndex).toBe(1);
    expect(own.content.scrollToCell).toHaveBeenCalledWith(own.content.widgets[1]);
    own.content.widgets.splice(1, 1);
    reveal();
    expect(activateById).toHaveBeenCalledTimes(2);
    expect(own.content.scrollToCell).toHaveBeenCalledTimes(1);
    own.isDisposed = true;
    reveal();
    expect(activateById).toHaveBeenCalledTimes(2);
  });

  it('is that of its own notebook where a copy with the same ids is open, too', async () => {
    const copy = panel('copy.ipynb', { 'cell-1': 'copy' });
    const own = panel('a.ipynb', { 'cell-1': 'own' });
    const { found } = origins([copy, own]);
    expect(await found.cell(record(), PLACES)).toMatchObject({ text: 'own' });
  });

  it('is looked for without an id in its own notebook only', async () => {
    const spec = { ...SPEC, cell_id: '' };
    const same = { any: '%%train\nx = 1\nprint(x)' };
    const { found } = origins([panel('b.ipynb', same)]);
    expect(await found.cell(record({ spec }), {})).toBe('gone');
    const own = origins([panel('a.ipynb', same)]);
    expect(await own.found.cell(record({ spec }), PLACES)).toMatchObject({ path: 'a.ipynb' });
  });

  it('is read from the file of a notebook that is closed, whose lines may be a list', async () => {
    const cells = [{ id: 'cell-1', source: ['%%train\n', 'x = 3'] }];
    const { found } = origins([], { 'a.ipynb': { cells } });
    const now = await found.cell(record(), PLACES);
    expect(now).toEqual({ text: '%%train\nx = 3', path: 'a.ipynb' });
  });

  it.each([
    ['no-cell', PLACES, SPEC, { 'a.ipynb': { cells: [] } }],
    ['gone', { '/lab/a.ipynb': { ...place, exists: false } }, SPEC, {}],
    ['gone', PLACES, SPEC, {}],
    ['elsewhere', { '/lab/a.ipynb': { ...place, shown_as: null } }, SPEC, {}],
    ['unnamed', {}, { ...SPEC, notebook: '' }, {}]
  ] as const)('is %s', async (absence, places, spec, files) => {
    const { found } = origins([], files);
    expect(await found.cell(record({ spec: { ...spec } }), places)).toBe(absence);
  });
});

describe('the file of a job', () => {
  it('is read where the server shows it', async () => {
    const spec = { ...SPEC, filename: '/lab/train.py' };
    const places = { '/lab/train.py': { ...place, shown_as: 'train.py' } };
    const { found } = origins([], { 'train.py': 'x = 1\n' });
    expect(await found.file(record({ spec }), places)).toEqual({
      text: 'x = 1\n',
      path: 'train.py'
    });
    expect(await found.file(record({ spec }), {})).toBe('gone');
  });
});
