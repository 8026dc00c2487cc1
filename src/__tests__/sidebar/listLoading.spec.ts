import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { JobsPanel } from '../../sidebar/jobsPanel';
import type { ListComponents } from '../../sidebar/listSection';
import * as lists from '../../sidebar/lists';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job, pool } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

beforeAll(layOut);

describe('the code of the lists', () => {
  const load = jest.fn<Promise<ListComponents>, []>();
  let panel: JobsPanel;

  beforeEach(() => {
    load.mockReset();
    const model = new FakeModel();
    model.state = applyListing(EMPTY_STATE, [job(0), completed(1)], [pool(1)], 1).state;
    panel = new JobsPanel({ model, commands: fakeCommands().commands, trans }, load);
    panel.hide();
    Widget.attach(panel, document.body);
  });

  afterEach(() => panel.dispose());

  const count = (what: string): number => panel.node.querySelectorAll(what).length;
  const rows = (): number => count('[data-job], [data-pool]');

  it('is loaded once for the three of them, when the panel is shown', async () => {
    load.mockResolvedValue(lists);
    await waitForRender();
    expect(load).not.toHaveBeenCalled();
    panel.show();
    await waitForRender();
    expect(rows()).toBe(3);
    expect(load).toHaveBeenCalledTimes(1);
  });

  it('is loaded for a hidden panel, too, which then opens with its rows', async () => {
    load.mockResolvedValue(lists);
    await panel.load();
    await waitForRender();
    expect(rows()).toBe(3);
  });

  it('says that it could not be loaded, and tries again when it is asked to or shown again', async () => {
    load.mockRejectedValue(new Error('ChunkLoadError'));
    await panel.load();
    panel.show();
    await waitForRender();
    expect(count('[role=alert]')).toBe(3);
    expect(panel.node.textContent).toContain('Cannot load the list.');
    const asked = load.mock.calls.length;
    load.mockResolvedValue(lists);
    button(panel.node, 'Try again').click();
    await waitForRender();
    expect(load).toHaveBeenCalledTimes(asked + 1);
    expect(count('[data-job]')).toBeGreaterThan(0);
    panel.hide();
    panel.show();
    await waitForRender();
    expect([rows(), count('[role=alert]')]).toEqual([3, 0]);
  });
});
