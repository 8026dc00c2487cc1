import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { JobSummary, PoolSummary } from '../../_types';
import { buildPanels } from '../../charts/panels';
import { formatJobEnd } from '../../format/jobText';
import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { parseCard } from '../../notebook/cardSnapshot';
import { formatDesktopNotification, formatEnded } from '../../notifications/messages';
import { JobsPanel } from '../../sidebar/jobsPanel';
import { plainJob, plainPool } from '../../state/plainRecords';
import { applyChanges, applyListing, appendPage, EMPTY_STATE } from '../../state/state';
import { arrayTask, changes, completed, event, job, pool } from '../fixtures/examples';
import { button, fakeCommands, FakeModel, layOut, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

/** Markup, a bell, an override of the direction, half of an emoji where a text is cut, and 5,000 characters. */
const HOSTILE = `<img src=x onerror=alert(1)>\u0007\u202e\u061c${'😀'.repeat(2500)}`;
// eslint-disable-next-line no-control-regex
const BAD = /[\u0007\u202e\u061c]/;
const task = { ...arrayTask(0, 3), name: HOSTILE, title: HOSTILE, label: HOSTILE };
const texts = { name: HOSTILE, message: HOSTILE, engine: HOSTILE, instances: HOSTILE };
const figures = {
  metrics: { [HOSTILE]: 1, loss: null },
  progress: { fraction: 0.5, text: HOSTILE, remaining_seconds: null, at: 0 }
};
const hostile: JobSummary[] = [
  job(1, { ...texts, ...figures }),
  job(2, { ...texts, secondary_status: 'Pending', start: 'none' }),
  completed(3, { ...texts, ...figures, status: 'Failed', failure_type: HOSTILE }),
  completed(4, { ...texts, array: task })
];
const hostilePool: PoolSummary = pool(1, {
  ...{ name: HOSTILE, engine: HOSTILE, instances: HOSTILE, reason: HOSTILE, last_job: HOSTILE },
  ...{ unreachable: HOSTILE, machines: Array.from({ length: 500 }, () => HOSTILE) },
  preloaded: [HOSTILE]
});

/** Characters of a panel, a card or a view, with tooltips and accessible names. */
const LIMIT = 100_000;

function expectHarmless(node: HTMLElement): void {
  expect(node.querySelector('img')).toBeNull();
  expect(node.innerHTML).not.toMatch(BAD);
  expect(node.innerHTML.length).toBeLessThan(LIMIT);
  expect(node.textContent).toContain('<img src=x');
}

beforeAll(layOut);

describe('records with markup, control characters, right-to-left text and 5,000 characters', () => {
  let model: FakeModel;

  beforeEach(() => {
    model = new FakeModel();
    model.state = applyListing(EMPTY_STATE, hostile, [hostilePool], 1).state;
  });

  it('are cut, in listings, changes and pages alike, and others stay the objects that they were', () => {
    const news = changes([event(2, { job: hostile[0] }), event(3, { pool: hostilePool })]);
    const states = [
      model.state,
      applyChanges(EMPTY_STATE, news).state,
      appendPage(EMPTY_STATE, hostile, null)
    ];
    for (const { jobs, pools } of states) {
      for (const record of [...jobs.values(), ...pools.values()]) {
        expect(record.name.length).toBeLessThanOrEqual(200);
        expect(record.name).toMatch(/[\udc00-\udfff]…$/);
      }
    }
    const [good, goodPool] = [job(1, { array: arrayTask(0, 1) }), pool(1)];
    expect(plainJob(good)).toBe(good);
    expect(plainPool(goodPool)).toBe(goodPool);
  });

  it('are text in the panel', async () => {
    const panel = new JobsPanel({ model, commands: fakeCommands().commands, trans });
    Widget.attach(panel, document.body);
    await waitForRender();
    expectHarmless(panel.node);
    panel.dispose();
  });

  it.each(hostile.map(one => [one.id, one] as const))(
    'are text on the card of %s, live and saved',
    async (_, summary) => {
      for (const state of [model.state, EMPTY_STATE]) {
        model.state = state;
        const card = new CardRenderer(model, fakeCommands().commands, trans);
        Widget.attach(card, document.body);
        const data = { [CARD_MIME_TYPE]: { id: summary.id, name: HOSTILE, summary } };
        await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() } as never);
        await waitForRender();
        expectHarmless(card.node);
        card.dispose();
      }
    }
  );

  it('are text on the card of an array with 10,000 tasks, of which few have a mark', async () => {
    const array = {
      id: 'a1',
      name: HOSTILE,
      array: { title: HOSTILE },
      states: 'p'.repeat(10_000)
    };
    const card = new CardRenderer(model, fakeCommands().commands, trans);
    Widget.attach(card, document.body);
    const data = { [CARD_MIME_TYPE]: array };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() });
    await waitForRender();
    expect(card.node.querySelectorAll('*').length).toBeLessThan(300);
    expect(card.node.innerHTML).not.toMatch(BAD);
    expect(card.node.textContent).toContain(' and 9800 more');
    card.dispose();
  });

  it('are short in toasts and on the desktop, so that the outcome is seen', () => {
    const ended = hostile.slice(2).map(plainJob);
    for (const words of ended.map(one => formatJobEnd(one, trans))) {
      expect(words.length).toBeLessThanOrEqual(180);
      expect(words).not.toMatch(BAD);
    }
    const tasks = [0, 1].map(number => completed(number, { array: task, name: HOSTILE }));
    expect(formatEnded(tasks, trans).length).toBeLessThanOrEqual(140);
    expect(formatDesktopNotification(tasks, trans).body.length).toBeLessThanOrEqual(180);
  });

  it('give short names to charts', () => {
    const line = { kind: 'metric', name: HOSTILE, host: 'algo-1', values: [1], times: [1] };
    const [{ title, lines }] = buildPanels([line as never], trans);
    for (const words of [title, lines[0].label]) {
      expect(words.length).toBeLessThanOrEqual(80);
      expect(words).not.toMatch(BAD);
    }
  });

  it('are no obstacle where a notebook holds something else than texts', () => {
    const summary = { ...job(1), message: 3, engine: null, array: { name: [] }, progress: 'x' };
    expect(parseCard({ id: 'a', name: 'n', summary } as never)?.summary?.name).toBe(job(1).name);
  });
});

/** Elements of the panel, however many rows it has. */
const ELEMENTS = 4000;

describe('1,000 running jobs, an array with 10,000 tasks and 10,000 finished jobs', () => {
  it('are a few elements in the panel, also when the array is unfolded', async () => {
    const model = new FakeModel();
    const panel = new JobsPanel({ model, commands: fakeCommands().commands, trans });
    Widget.attach(panel, document.body);
    const running = Array.from({ length: 1000 }, (_, number) => job(number));
    const tasks = Array.from({ length: 10_000 }, (_, index) =>
      job(20_000 + index, { array: arrayTask(index, 10_000), created_at: 1 })
    );
    const finished = Array.from({ length: 10_000 }, (_, number) => completed(40_000 + number));
    model.become(applyListing(EMPTY_STATE, [...running, ...tasks, ...finished], [], 1).state);
    await waitForRender();
    const count = (): number => panel.node.querySelectorAll('*').length;
    expect(count()).toBeLessThan(ELEMENTS);
    expect(panel.node.querySelector('.jp-smx-counts')?.textContent).toContain('11000 running');
    button(panel.node, 'Tasks of train-a1').click();
    await waitForRender();
    expect(panel.node.querySelector('[data-task]')).not.toBeNull();
    expect(count()).toBeLessThan(ELEMENTS);
    panel.dispose();
  });
});

describe('a job that ends before its card stands', () => {
  const draw = async (model: FakeModel, summary: JobSummary): Promise<CardRenderer> => {
    const card = new CardRenderer(model, fakeCommands().commands, trans);
    Widget.attach(card, document.body);
    const data = { [CARD_MIME_TYPE]: { id: summary.id, name: summary.name, summary } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() } as never);
    await waitForRender();
    return card;
  };
  const words = (card: CardRenderer): string | null | undefined =>
    card.node.querySelector('[role=status]')?.textContent;

  it('has its end on the card, whose snapshot is from before it', async () => {
    const model = new FakeModel();
    model.state = applyListing(EMPTY_STATE, [completed(0)], [], 1).state;
    const card = await draw(model, job(0));
    expect(words(card)).toContain('Completed');
    expect(model.expectJob).toHaveBeenCalledWith('job-0', '');
    expect(card.node.textContent).not.toContain('as of the last save');
    card.dispose();
  });

  it('has the snapshot and its age on the card if it was deleted as well, and no clock that goes on', async () => {
    const model = new FakeModel();
    model.state = applyListing(EMPTY_STATE, [], [], 1).state;
    const card = await draw(model, job(0));
    expect(words(card)).toContain('Training');
    expect(card.node.textContent).toContain('as of the last save of the notebook');
    expect(card.node.querySelector('.jp-smx-time')).toBeNull();
    card.dispose();
  });
});
