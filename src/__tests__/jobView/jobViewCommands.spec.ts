import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { MainAreaWidget } from '@jupyterlab/apputils';
import { InputDialog } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../../commands/commandIds';
import type { JobView } from '../../jobView';
import { addJobViewCommands } from '../../jobView/jobViewCommands';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { JobTabs } from '../../widgets/jobTabs';
import { completed } from '../fixtures/examples';
import { button, FakeModel, waitForRender } from '../fixtures/fakeModel';
import { record } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');
const COMPARED = { before: '', after: '', sentence: '', code: [], changes: [], unknown: [] };

/** Return the server's answer to a path; the request for a log waits without data. */
function bodyOf(path: string): object | null {
  if (path.includes('/logs')) {
    return null;
  }
  if (path.includes('/diff')) {
    return COMPARED;
  }
  return path.endsWith('/places') ? { places: {} } : record();
}

describe('the commands of views', () => {
  let commands: CommandRegistry;
  let shown: MainAreaWidget<JobView>[];
  let active: string[];
  let asked: string[];

  function answer(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const path = pathname.replace('/jupyter-smx/', '') + search;
    asked.push(path);
    const body = bodyOf(path);
    return body === null
      ? new Promise(() => undefined)
      : Promise.resolve(new Response(JSON.stringify(body)));
  }

  beforeEach(() => {
    [commands, shown, active, asked] = [new CommandRegistry(), [], [], []];
    const model = new FakeModel();
    model.state = applyListing(
      EMPTY_STATE,
      [completed(0), completed(1), completed(2)],
      [],
      1
    ).state;
    const serverSettings = ServerConnection.makeSettings({
      baseUrl: 'http://localhost/',
      fetch: answer as typeof fetch
    });
    const app = {
      commands,
      serviceManager: { serverSettings, contents: {} },
      shell: {
        add: (tab: MainAreaWidget<JobView>) => {
          shown.push(tab);
          Widget.attach(tab, document.body);
        },
        activateById: (id: string) => active.push(id)
      }
    } as unknown as JupyterFrontEnd;
    const settings = { get: () => ({ composite: false }) };
    const load = (): Promise<unknown> => Promise.resolve(settings);
    const registry = { load } as unknown as ISettingRegistry;
    const options = { app, model, trans, notebooks: null, languages: null, registry };
    addJobViewCommands(options, new JobTabs<JobView>(app, 'job'));
  });

  afterEach(() => shown.forEach(tab => tab.dispose()));

  it('open one tab for each job, and show it again', async () => {
    await commands.execute(CommandIDs.openJob, { id: 'job-0' });
    await commands.execute(CommandIDs.openJob, { id: 'job-1' });
    await commands.execute(CommandIDs.openJob, { id: 'job-0' });
    expect(shown.map(tab => tab.content.id)).toEqual(['job-0', 'job-1']);
    expect(active).toEqual(['job-0', 'job-1', 'job-0'].map(id => `jupyter-smx-job-${id}`));
  });

  it('show its log as the settings say', async () => {
    await commands.execute(CommandIDs.openJob, { id: 'job-0' });
    await waitForRender();
    expect(button(shown[0].node, 'Wrap').getAttribute('aria-pressed')).toBe('false');
  });

  it('open a job that the page does not list, under the name of the arguments', async () => {
    await commands.execute(CommandIDs.openJob, { id: 'older', name: 'digits-9' });
    expect(shown[0].title.label).toBe('digits-9');
    await waitForRender();
    // The name in the record replaces it.
    expect(shown[0].title.label).toBe('train-digits-0');
  });

  it('open a new tab if the one before was closed', async () => {
    await commands.execute(CommandIDs.openJob, { id: 'job-0' });
    shown[0].dispose();
    await commands.execute(CommandIDs.openJob, { id: 'job-0' });
    expect(shown).toHaveLength(2);
  });

  it('compare with the named job, or with the run before', async () => {
    await commands.execute(CommandIDs.compareJobs, { id: 'job-1', with: 'job-0' });
    await waitForRender();
    expect(asked).toContainEqual(expect.stringMatching(/^jobs\/job-1\/diff\?from=job-0/));
    await commands.execute(CommandIDs.compareJobs, { id: 'job-2' });
    await waitForRender();
    expect(asked).toContainEqual(expect.stringMatching(/^jobs\/job-2\/diff(\?\d+)?$/));
  });

  it('ask for both jobs if none is named, and do nothing if the user cancels', async () => {
    const choose = jest.spyOn(InputDialog, 'getItem');
    const chosen = (value: string | null) => ({ button: {} as never, isChecked: null, value });
    choose.mockResolvedValueOnce(chosen('train-digits-2'));
    choose.mockResolvedValueOnce(chosen('train-digits-0'));
    await commands.execute(CommandIDs.compareJobs);
    await waitForRender();
    expect(asked).toContainEqual(expect.stringMatching(/^jobs\/job-2\/diff\?from=job-0/));
    expect(choose.mock.calls[1][0].items[0]).toBe('Previous run');
    choose.mockResolvedValueOnce(chosen('train-digits-1'));
    choose.mockResolvedValueOnce(chosen(null));
    await commands.execute(CommandIDs.compareJobs);
    expect(shown).toHaveLength(1);
    choose.mockRestore();
  });
});
