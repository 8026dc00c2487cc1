import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { listIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { JobTabs } from '../../widgets/jobTabs';

describe('tabs of jobs', () => {
  const shell = {
    add: (widget: Widget) => Widget.attach(widget, document.body),
    activateById: jest.fn()
  };
  const tabs = new JobTabs<Widget>({ shell } as unknown as JupyterFrontEnd, 'job');
  const made = jest.fn(() => new Widget());

  it('are one for each job, which is found again', () => {
    const first = tabs.show({ id: 'a1', name: 'train-a1' }, made);
    const other = tabs.show({ id: 'b2', name: 'train-b2' }, made);
    expect(tabs.show({ id: 'a1', name: 'train-a1' }, made)).toBe(first);
    expect(other).not.toBe(first);
    expect(made).toHaveBeenCalledTimes(2);
    expect(shell.activateById).toHaveBeenLastCalledWith('jupyter-smx-job-a1');
  });

  it('say in their label and icon which kind of view they are, and keep the name of the job', () => {
    const logs = new JobTabs<Widget>(
      { shell } as unknown as JupyterFrontEnd,
      'log',
      listIcon,
      name => `Log: ${name}`
    );
    logs.show({ id: 'a1', name: 'train-a1' }, made);
    const restore = jest.fn<void, Parameters<ILayoutRestorer['restore']>>();
    logs.restore({ restore } as unknown as ILayoutRestorer, 'open');
    const [tracker, { args }] = restore.mock.calls[0];
    const tab = tracker.find(one => one.title.label === 'Log: train-a1') as Widget;
    expect(tab.title.icon).toBe(listIcon);
    expect(args?.(tab)).toEqual({ id: 'a1', name: 'train-a1' });
  });

  it('are kept in the layout under the id of their job, and open again with it and its name', () => {
    const restore = jest.fn<void, Parameters<ILayoutRestorer['restore']>>();
    tabs.restore({ restore } as unknown as ILayoutRestorer, 'open');
    const [tracker, { command, args, name }] = restore.mock.calls[0];
    expect([tracker.namespace, command]).toEqual(['jupyter-smx-job', 'open']);
    const tab = tracker.find(one => one.title.label === 'train-b2') as Widget;
    expect([name(tab), args?.(tab)]).toEqual(['b2', { id: 'b2', name: 'train-b2' }]);
  });
});
