import type { JupyterFrontEnd } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { NotebookActions } from '@jupyterlab/notebook';
import type { IStatusBar } from '@jupyterlab/statusbar';
import type { Signal } from '@lumino/signaling';

import { followAwsMagic } from '../../notebook/awsMagic';
import { awsPlugin } from '../../plugins/aws';
import { EMPTY_STATE } from '../../state/state';
import { FakeModel, waitForRender } from '../fixtures/fakeModel';

const URL = 'http://127.0.0.1:40123';
const OTHER_URL = 'http://127.0.0.1:40124';

/** The plugin in a page: its model, its items, and whether the status bar was told to show the item, each time. */
function activate(): { model: FakeModel; items: IStatusBar.IItem[]; shown: boolean[] } {
  const items: IStatusBar.IItem[] = [];
  const shown: boolean[] = [];
  const bar = {
    registerStatusItem: (_: string, item: IStatusBar.IItem) => {
      items.push(item);
      shown.push(item.isActive?.() ?? true);
      item.activeStateChanged?.connect(() => shown.push(item.isActive?.() ?? true));
    }
  } as unknown as IStatusBar;
  const model = new FakeModel();
  void awsPlugin.activate({} as JupyterFrontEnd, model, bar, null);
  return { model, items, shown };
}

function execute(source: string): void {
  const executed = NotebookActions.executed as Signal<unknown, unknown>;
  executed.emit({ cell: { model: { sharedModel: { getSource: () => source } } } });
}

describe('the item for clients of AWS', () => {
  afterEach(() => {
    PageConfig.setOption('smxAws', '');
  });

  it('follows the front that the server half reports', async () => {
    const { model, items, shown } = activate();
    model.become({ ...EMPTY_STATE, awsUrl: '' });
    await waitForRender();
    expect(items).toEqual([]);
    model.become({ ...EMPTY_STATE, awsUrl: URL });
    model.become({ ...EMPTY_STATE, awsUrl: URL, seq: 1 });
    await waitForRender();
    expect(items.length).toBe(1);
    const node = items[0]?.item.node;
    expect(node?.textContent).toBe('AWS → local');
    expect(node?.title).toContain(URL);
    expect(node?.title).toContain('kernels and terminals that turned it on');
    expect(node?.title).toContain('%smx aws off');
    model.become({ ...EMPTY_STATE, awsUrl: URL, seq: 2 });
    model.become({ ...EMPTY_STATE, awsUrl: OTHER_URL });
    expect(node?.title).toContain(OTHER_URL);
    model.become({ ...EMPTY_STATE, awsUrl: '' });
    model.become({ ...EMPTY_STATE, awsUrl: URL });
    await waitForRender();
    expect(shown).toEqual([true, true, false, true]);
    expect(items.length).toBe(1);
  });

  it('says that all new kernels and terminals train here where they inherit the variables', async () => {
    PageConfig.setOption('smxAws', URL);
    const { model, items } = activate();
    model.become({ ...EMPTY_STATE, awsUrl: URL });
    await waitForRender();
    expect(items[0]?.item.node.title).toContain('new kernels and terminals');
    expect(items[0]?.item.node.title).toContain('%smx aws off');
  });

  it('is read again after a cell that may start the front, and after no other one', () => {
    const model = new FakeModel();
    followAwsMagic(model);
    followAwsMagic(model);
    execute('import boto3\n  %smx aws on');
    execute('%smx  aws on --s3 aws');
    expect(model.refresh).toHaveBeenCalledTimes(2);
    execute('%smx jobs');
    execute('print("%smx aws on")');
    expect(model.refresh).toHaveBeenCalledTimes(2);
  });

  it('is missing in a page without a status bar', async () => {
    const model = new FakeModel();
    void awsPlugin.activate({} as JupyterFrontEnd, model, null, null);
    model.become({ ...EMPTY_STATE, awsUrl: URL });
    await waitForRender();
    expect(document.querySelector('.jp-smx-aws')).toBeNull();
  });
});
