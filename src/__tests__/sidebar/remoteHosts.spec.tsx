import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import type { JobSummary, PoolSummary } from '../../_types';
import { formatCounts } from '../../format/jobText';
import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { describePanel, JobsPanel } from '../../sidebar/jobsPanel';
import { runningManager } from '../../sidebar/runningSessions';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { job, pool } from '../fixtures/examples';
import { fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

/** Records as a scheduler with a queue and with allocations makes them; the clock of the model says 1134. */
const QUEUE = 'Waiting at the engine slurm: Resources, position 3, expected to start at 14:05.';
const SILENT = 'Its hosts are not reachable since 14:05: gpu-box did not answer within 10 s.';
const waiting = job(1, {
  engine: 'slurm',
  secondary_status: 'Starting',
  message: QUEUE,
  expected_start_at: 1134 + 600,
  pool: 'pool-1'
});
const training = job(2, { engine: 'slurm', pool: 'pool-2' });
const silent = job(3, { engine: 'ssh', message: SILENT, pool: 'pool-3' });
const pools: PoolSummary[] = [
  pool(1, { engine: 'slurm', state: 'Provisioning', expires_at: null, jobs_served: 0 }),
  pool(2, {
    engine: 'slurm',
    state: 'InUse',
    expires_at: null,
    machines: ['node-7'],
    allocation_ends_at: 1134 + 1500,
    nodes: 2,
    idle_seconds: 900
  }),
  pool(3, { engine: 'ssh', state: 'InUse', expires_at: null, unreachable: SILENT }),
  pool(4, { engine: 'slurm', expires_at: 2000, allocation_ends_at: 1134 + 60 })
];
const { state } = applyListing(EMPTY_STATE, [waiting, training, silent], pools, 1);

beforeAll(layOut);

describe('hosts on other machines', () => {
  let model: FakeModel;

  beforeEach(() => {
    model = new FakeModel();
    model.state = state;
  });

  describe('in the panel', () => {
    let panel: JobsPanel;

    beforeEach(async () => {
      panel = new JobsPanel({ model, commands: fakeCommands().commands, trans });
      Widget.attach(panel, document.body);
      await waitForRender();
    });

    afterEach(() => panel.dispose());

    const text = (row: string): string => panel.node.querySelector(row)?.textContent ?? '';

    it('that wait in a queue have its reason and its estimate, the job and its pool', () => {
      for (const row of ['[data-job="job-1"]', '[data-pool="pool-1"]']) {
        expect(text(`${row} .jp-smx-says`)).toBe(QUEUE);
        expect(text(row)).toContain('starts in ~10 min');
      }
      const mark = panel.node.querySelector<HTMLElement>('[data-job="job-1"] .jp-smx-mark');
      expect(mark?.dataset.status).toBe('Pending');
      expect(text('[data-pool="pool-2"]')).not.toContain('starts in');
    });

    it('have their machines and the time that is left of their allocation', () => {
      for (const row of ['[data-job="job-2"]', '[data-pool="pool-2"]']) {
        expect(text(row)).toContain('slurm (node-7)');
        expect(text(row)).toContain('allocation ends in 25 min');
      }
      expect(text('[data-job="job-1"]')).not.toContain('allocation');
    });

    it('have the node hours that their allocation was idle, if that has no price', () => {
      expect(text('[data-pool="pool-2"]')).toContain('idle 0.50 node hours');
      expect(text('[data-pool="pool-3"]')).not.toContain('node hours');
    });

    it('count down to the end of their allocation if it comes before that of the keep-alive', () => {
      expect(text('[data-pool="pool-4"] .jp-smx-time span[aria-hidden]')).toBe('01:00');
    });

    it('that do not answer say since when and why, and are counted', () => {
      for (const row of ['[data-job="job-3"]', '[data-pool="pool-3"]']) {
        expect(text(`${row} .jp-smx-says`)).toBe(SILENT);
      }
      expect(text('.jp-smx-counts')).toBe('2 running · 1 waiting · 1 warm · 1 pool not reachable');
    });
  });

  it('are counted in the status bar and in the tooltip of the launcher by the same words', () => {
    expect(formatCounts(state, 1134, trans)).toContain('1 pool not reachable');
    expect(describePanel(model, trans)).toBe(formatCounts(state, 1134, trans));
    model.state = EMPTY_STATE;
    expect(describePanel(model, trans)).toBe('Show the panel of jobs and warm pools');
  });

  it('say in the list of what runs that they do not answer', () => {
    const idle = [pool(1), pool(2, { unreachable: SILENT, engine: 'ssh', machines: ['gpu-box'] })];
    model.state = applyListing(EMPTY_STATE, [], idle, 1).state;
    const items = runningManager(model, fakeCommands().commands, trans).running({ mode: 'list' });
    expect(items.map(item => item.detail?.())).toEqual(['Available', 'Not reachable']);
    expect(items[1].labelTitle?.()).toBe('local × 1 on ssh (gpu-box)');
  });

  async function drawCard(summary: JobSummary): Promise<CardRenderer> {
    const card = new CardRenderer(model, new CommandRegistry(), trans);
    Widget.attach(card, document.body);
    const data = { [CARD_MIME_TYPE]: { id: summary.id, name: summary.name, summary } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() } as never);
    await waitForRender();
    return card;
  }

  it.each([
    ['the queue', waiting, [QUEUE, 'starts in ~10 min']],
    ['machine and allocation', training, ['slurm (node-7)', 'allocation ends in 25 min']],
    ['the silence', silent, [SILENT]]
  ])('show %s on the card', async (_, summary, words) => {
    const card = await drawCard(summary);
    for (const part of words) {
      expect(card.node.textContent).toContain(part);
    }
    card.dispose();
  });
});
