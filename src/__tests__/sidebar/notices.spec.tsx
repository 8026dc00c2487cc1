import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { JobsPanel } from '../../sidebar/jobsPanel';
import type { IState } from '../../state/state';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed } from '../fixtures/examples';
import { fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

beforeAll(layOut);

describe('notices of the panel', () => {
  let model: FakeModel;
  let panel: JobsPanel;

  beforeEach(() => {
    model = new FakeModel();
    const trans = nullTranslator.load('jupyter_smx');
    panel = new JobsPanel({ model, commands: fakeCommands().commands, trans });
    Widget.attach(panel, document.body);
  });

  afterEach(() => panel.dispose());

  it('says where the records are, while they end with the machine of the server', async () => {
    const find = (): Element | null => panel.node.querySelector('.jp-smx-records');
    model.become({ ...EMPTY_STATE, connectionStatus: 'ready' });
    await waitForRender();
    expect(find()).toBeNull();
    model.become({ ...EMPTY_STATE, connectionStatus: 'ready', recordsNote: 'They are in /a.' });
    await waitForRender();
    expect(find()?.querySelector('summary')?.textContent).toContain('is lost when this machine');
    expect(find()?.querySelector('p')?.textContent).toBe('They are in /a.');
  });

  it('says that a notebook has jobs which are not listed, as long as it has', async () => {
    const find = (): Element | null => panel.node.querySelector('.jp-smx-elsewhere');
    const state: IState = { ...EMPTY_STATE, connectionStatus: 'ready', recordsId: 'here' };
    model.become({ ...state, cardRecords: new Set(['here']) });
    await waitForRender();
    expect(find()).toBeNull();
    model.become({ ...state, cardRecords: new Set(['here', 'there']) });
    await waitForRender();
    expect(find()?.textContent).toContain('Run %smx jobs in that notebook');
  });

  it('says what to do with a kernel that has no magics, until there is a first job', async () => {
    model.become(applyListing(EMPTY_STATE, [], [], 1).state);
    await waitForRender();
    expect(panel.node.textContent).toMatch(
      /"Cell magic `%%train` not found".* Run %pip install jupyter-smx and then %load_ext jupyter_smx in/
    );
    model.become(applyListing(EMPTY_STATE, [completed(1)], [], 2).state);
    await waitForRender();
    expect(panel.node.textContent).toContain('To start one, add %%train at the top of a cell.');
    expect(panel.node.textContent).not.toContain('not found');
  });
});
