// How much the panel draws: a row is drawn again only if it shows something else, and only rows in sight are drawn.

import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import { CommandIDs } from '../../commands/commandIds';
import { commandRunner, itemCommandRunner } from '../../commands/commandRunner';
import * as jobText from '../../format/jobText';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { applyChanges, applyListing, EMPTY_STATE } from '../../state/state';
import { changes, completed, event, job, pool } from '../fixtures/examples';
import { fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

beforeAll(layOut);

describe('the rows', () => {
  let model: FakeModel;
  let panel: JobsPanel;
  let drawn: jest.SpyInstance;

  const jobs = (): JobSummary[] => [job(1), job(2), completed(3)];

  /** The ids of the jobs whose rows were drawn since the last call. */
  function redrawn(): string[] {
    const ids = drawn.mock.calls.map(([one]) => (one as JobSummary).id);
    drawn.mockClear();
    return [...new Set(ids)].sort();
  }

  beforeEach(async () => {
    drawn = jest.spyOn(jobText, 'formatStart');
    model = new FakeModel();
    panel = new JobsPanel({ model, commands: fakeCommands().commands, trans });
    Widget.attach(panel, document.body);
    await panel.load();
    model.become(applyListing(EMPTY_STATE, jobs(), [pool(1)], 1).state);
    await waitForRender();
    redrawn();
  });

  afterEach(() => {
    panel.dispose();
    jest.restoreAllMocks();
  });

  const clock = (): string | undefined =>
    panel.node.querySelector('[data-job="job-1"] .jp-smx-time')?.textContent?.slice(0, 5);

  it('are drawn if their job changed', async () => {
    const usage = {
      cpu_percent: 250,
      memory_bytes: null,
      gpu_percent: null
    } as JobSummary['usage'];
    const changed = changes([event(2, { job: job(2, { usage }) })]);
    model.become(applyChanges(model.state, changed).state);
    await waitForRender();
    expect(redrawn()).toEqual(['job-2']);
    expect(panel.node.querySelector('[data-job="job-2"]')?.textContent).toContain('CPU 250 %');
  });

  it('are drawn with the seconds of a clock, not between them', async () => {
    const before = clock();
    model.now = () => 1134.4;
    model.become(model.state);
    await waitForRender();
    expect(redrawn()).toEqual([]);
    model.now = () => 1135.2;
    model.become(model.state);
    await waitForRender();
    expect(redrawn()).toEqual(['job-1', 'job-2']);
    expect(clock()).not.toBe(before);
  });

  it('are drawn for 200 pools as far as they are in sight', async () => {
    const pools = Array.from({ length: 200 }, (_, index) => pool(index + 1));
    model.become(applyListing(EMPTY_STATE, jobs(), pools, 2).state);
    await waitForRender();
    const rows = [...panel.node.querySelectorAll<HTMLElement>('[data-pool]')];
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.length).toBeLessThan(40);
    expect(rows[0].getAttribute('aria-setsize')).toBe('200');
    // Buttons of pools are tab stops, and their rows are not.
    expect(rows[0].hasAttribute('tabindex')).toBe(false);
  });
});

describe('the function that executes a command', () => {
  it('is the same for each drawing, and absent without its command', () => {
    const { commands, executed } = fakeCommands([CommandIDs.deleteJob]);
    const stop = itemCommandRunner(commands, CommandIDs.stopJob);
    expect(stop).toBe(itemCommandRunner(commands, CommandIDs.stopJob));
    expect(commandRunner(commands, CommandIDs.stopJob)).toBe(
      commandRunner(commands, CommandIDs.stopJob)
    );
    expect(itemCommandRunner(commands, CommandIDs.deleteJob)).toBeUndefined();
    stop?.({ id: 'job-1' });
    expect(executed).toEqual([[CommandIDs.stopJob, 'job-1']]);
  });
});
