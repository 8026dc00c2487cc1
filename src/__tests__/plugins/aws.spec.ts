import type { JupyterFrontEnd } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import type { IStatusBar } from '@jupyterlab/statusbar';
import type { Widget } from '@lumino/widgets';

import { awsPlugin } from '../../plugins/aws';

function activate(): Widget[] {
  const items: Widget[] = [];
  const bar = {
    registerStatusItem: (_: string, { item }: { item: Widget }) => items.push(item)
  } as unknown as IStatusBar;
  void awsPlugin.activate({} as JupyterFrontEnd, bar, null);
  return items;
}

describe('the item for clients of AWS', () => {
  afterEach(() => {
    PageConfig.setOption('smxAws', '');
  });

  it('is there where the server leads them here, with the way back', () => {
    PageConfig.setOption('smxAws', 'http://127.0.0.1:40123');
    const [item] = activate();
    expect(item?.node.textContent).toBe('AWS → local');
    expect(item?.node.title).toContain('http://127.0.0.1:40123');
    expect(item?.node.title).toContain('%smx aws off');
  });

  it('is missing where they reach AWS', () => {
    expect(activate()).toEqual([]);
  });
});
