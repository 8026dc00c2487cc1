import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import React from 'react';

import { ApiError } from '../../api/errors';
import { CommandIDs } from '../../commands/commandIds';
import { CardDetailsView } from '../../notebook/cardDetails';
import { svgPath } from '../../notebook/cardDetails/curvePath';
import { CardDetailsModel } from '../../notebook/cardDetails/detailsModel';
import { formatStage, timedStages } from '../../notebook/cardDetails/startStages';
import type { ICardDetails } from '../../notebook/cardRenderer';
import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job } from '../fixtures/examples';
import { FakeLog } from '../fixtures/fakeLog';
import { button, fakeCommands, FakeModel, waitForRender } from '../fixtures/fakeModel';
import { FakePage } from '../fixtures/fakeServer';
import { host, metrics, series, usage } from '../fixtures/history';
import { record } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

/** The moments of a job that a warm host ran, in seconds since it was asked for. */
const WARM = { magic: 0, accepted: 0.003, committed: 0.004, sent: 0.005, received: 0.006 };
const WHY = 'Warm: reused pool m5-1 after train-digits.';
const moments = (times: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(times).map(([name, at]) => [name, 1000 + at]));

describe('the way to the first line', () => {
  const words = (times: Record<string, number>): string[] =>
    timedStages(moments(times)).map(one => formatStage(one, trans));

  it('has a stage for what takes its time, in the order of the moments', () => {
    expect(words({ ...WARM, awake: 0.01, first_line: 0.012 })).toEqual([
      'submit 3 ms',
      'queue 1 ms',
      'hosts 2 ms',
      'inputs and startup 4 ms',
      'first line 2 ms'
    ]);
  });

  it('counts what came before and after an environment as one wait', () => {
    expect(words({ accepted: 0, building: 2, built: 62, committed: 65, sent: 67 })).toEqual([
      'submit 0 ms',
      'queue 5 s',
      'environment 1 min',
      'hosts 2 s'
    ]);
  });

  it('takes no time away for clocks that differ, and says nothing before there is something', () => {
    expect(words({ accepted: 0, committed: 5, sent: 4, received: 6 })).toEqual([
      'submit 0 ms',
      'queue 5 s',
      'hosts 1 s'
    ]);
    expect(timedStages({})).toEqual([]);
  });
});

describe('a small curve', () => {
  it('goes from the left to the right, from what is lowest to what is highest', () => {
    expect(svgPath({ at: [0, 10, 20], values: [1, 3, 2] }, false)).toBe(
      'M0.0 17.0L48.0 1.0L96.0 9.0'
    );
  });

  it('begins at nothing where that means something', () => {
    expect(svgPath({ at: [0, 1], values: [50, 100] }, true)).toBe('M0.0 9.0L96.0 1.0');
  });

  it('breaks where a value is not known, and is a point or nothing where there are no more', () => {
    expect(svgPath({ at: [0, 1, 2], values: [1, null, 2] }, true)).toMatch(/^M\S+ \S+M\S+ \S+$/);
    expect(svgPath({ at: [5], values: [1] }, false)).toBe('M48.0 9.0');
    expect(svgPath({ at: [5], values: [null] }, false)).toBe('');
  });
});

describe('a card', () => {
  let model: FakeModel;
  let log: FakeLog;
  let read: jest.Mock;
  let executed: [string, unknown][];
  let card: CardRenderer;
  let opened: string[];
  let page: FakePage;
  let asked: number;

  const text = (): string => card.node.textContent ?? '';

  beforeEach(async () => {
    model = new FakeModel();
    page = new FakePage();
    model.state = applyListing(EMPTY_STATE, [job(0, { cost: 0.02 })], [], 1).state;
    log = new FakeLog('one\ntwo\nthree\nfour\nfive\n\u001b[31msix\u001b[0m\n');
    read = jest.fn(() =>
      Promise.resolve(record({ timings: moments(WARM), why: { sentence: WHY } } as never))
    );
    asked = 0;
    opened = [];
    const { commands, executed: list } = fakeCommands();
    executed = list;
    const history = {
      usage: () => {
        asked += 1;
        return Promise.resolve(usage([host('algo-1', [1, 2], { cpu_percent: [50, 186] })]));
      },
      metrics: () => Promise.resolve(metrics([series('loss', [1, 2], [1, 0.2134])]))
    };
    card = new CardRenderer(model, commands, trans, id => {
      opened.push(id);
      const source = { record: read, places: () => Promise.resolve({}) };
      const options = { id, model, source, log, history, page: page as never, random: () => 0.5 };
      return Promise.resolve({ More: CardDetailsView, detail: new CardDetailsModel(options) });
    });
    Widget.attach(card, document.body);
    const summary = { ...job(0) };
    const data = { [CARD_MIME_TYPE]: { id: 'job-0', name: 'train-digits-0', summary } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() } as never);
    await waitForRender();
  });

  afterEach(() => card.dispose());

  async function fold(): Promise<void> {
    button(card.node, 'Details of train-digits-0').click();
    await waitForRender();
  }

  /** Let the log be read, which then waits for more. */
  async function waiting(): Promise<void> {
    for (let frames = 0; log.waiting === 0 && frames < 100; frames++) {
      await waitForRender();
    }
    expect(log.waiting).toBe(1);
  }

  /** Let pass what a reader lets pass between two questions, and more. */
  async function settled(): Promise<void> {
    for (let turn = 0; turn < 4; turn++) {
      await waitForRender();
    }
  }

  it('is one line, and asks nothing, until it is opened', async () => {
    expect(button(card.node, 'Details of train-digits-0').getAttribute('aria-expanded')).toBe(
      'false'
    );
    expect([read.mock.calls.length, log.asked.length, asked]).toEqual([0, 0, 0]);
    await fold();
    expect(button(card.node, 'Details of train-digits-0').getAttribute('aria-expanded')).toBe(
      'true'
    );
    expect([read.mock.calls.length, asked]).toEqual([1, 1]);
  });

  it('says why it began so, what it cost, and where the time before the first line went', async () => {
    await fold();
    expect(text()).toContain(WHY);
    expect(text()).toContain('$0.02 so far');
    expect(text()).toContain('submit 3 ms · queue 1 ms · hosts 2 ms');
    const shares = [...card.node.querySelectorAll<HTMLElement>('.jp-smx-way-bar > span')];
    const sum = shares.reduce((all, { style }) => all + Number(style.flexGrow), 0);
    // Shares of less than 1 together leave a part of the bar empty.
    expect([shares.length, sum]).toEqual([3, expect.closeTo(1)]);
  });

  it('draws figures over time with the newest value, and the last five lines of the log', async () => {
    await fold();
    const figures = [...card.node.querySelectorAll('.jp-smx-curves > li')];
    expect(figures.map(one => one.textContent)).toEqual(['loss 0.2134', 'CPU 186 %']);
    expect(figures[0].querySelector('path')?.getAttribute('d')).toMatch(/^M/);
    const tail = card.node.querySelector('[role=log]');
    expect(tail?.textContent).toBe('twothreefourfivesix');
    expect(tail?.querySelector('.ansi-red-fg')?.textContent).toBe('six');
    log.grow('seven\n');
    await waitForRender();
    expect(card.node.querySelector('[role=log]')?.textContent).toBe('threefourfivesixseven');
  });

  it('asks nothing any more when it is closed, hidden or gone', async () => {
    await fold();
    await waiting();
    card.hide();
    expect(log.waiting).toBe(0);
    card.show();
    await waitForRender();
    await waiting();
    await fold();
    expect(log.waiting).toBe(0);
    expect(card.node.querySelector('.jp-smx-card-more')).toBeNull();
    await fold();
    card.dispose();
    expect(log.waiting).toBe(0);
  });

  it('asks nothing while the page is hidden, and goes on when somebody looks', async () => {
    await fold();
    await waiting();
    page.visibilityState = 'hidden';
    page.show();
    await settled();
    expect(log.waiting).toBe(0);
    const before = [read.mock.calls.length, log.asked.length, asked];
    model.become(applyListing(EMPTY_STATE, [job(0, { attempt: 2 })], [], 2).state);
    await settled();
    expect([read.mock.calls.length, log.asked.length, asked]).toEqual(before);
    page.visibilityState = 'visible';
    page.show();
    await waiting();
    expect(read.mock.calls.length).toBeGreaterThan(before[0]);
  });

  it('shows the job of another run that Lab gives to the same renderer', async () => {
    await fold();
    expect(opened).toEqual(['job-0']);
    const data = { [CARD_MIME_TYPE]: { id: 'job-1', name: 'other', summary: { ...job(1) } } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() } as never);
    await waitForRender();
    expect(opened).toEqual(['job-0', 'job-1']);
    expect(card.node.querySelector('.jp-smx-card-more')).not.toBeNull();
    card.dispose();
    expect(log.waiting).toBe(0);
  });

  it('has a button for all that can be done', async () => {
    button(card.node, 'Stop train-digits-0').click();
    button(card.node, 'Log of train-digits-0').click();
    button(card.node, 'Open train-digits-0').click();
    model.become(applyListing(EMPTY_STATE, [completed(0)], [], 2).state);
    await waitForRender();
    button(card.node, 'Rerun train-digits-0').click();
    await fold();
    button(card.node, 'Outputs').click();
    const { stopJob, openLog, openJob, rerunJob } = CommandIDs;
    expect(executed).toEqual(
      [stopJob, openLog, openJob, rerunJob, openJob].map(id => [id, 'job-0'])
    );
  });

  it('says that the job is gone', async () => {
    read.mockRejectedValue(new ApiError(404, 'ResourceNotFound', 'no'));
    await fold();
    expect(text()).toContain('it was deleted with its log and files');
  });
});

describe('a card that gets another job while its open part is on its way', () => {
  let card: CardRenderer;
  let ends: { done: (opened: ICardDetails) => void; fail: (reason: Error) => void }[];

  const show = async (number: number): Promise<void> => {
    const data = { [CARD_MIME_TYPE]: { id: `job-${number}`, name: 'train', summary: null } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() });
    await waitForRender();
  };

  const come = async (at: number, words: string): Promise<void> => {
    const detail = { changed: new Signal({}), setVisible: jest.fn(), dispose: jest.fn() };
    ends[at].done({ More: () => <p>{words}</p>, detail } as never);
    await waitForRender();
  };

  beforeEach(async () => {
    const model = new FakeModel();
    model.state = applyListing(EMPTY_STATE, [job(0), job(1)], [], 1).state;
    ends = [];
    const open = (): Promise<ICardDetails> =>
      new Promise((done, fail) => {
        ends.push({ done, fail });
      });
    card = new CardRenderer(model, fakeCommands().commands, trans, open);
    Widget.attach(card, document.body);
    await show(0);
    button(card.node, 'Details of train-digits-0').click();
  });

  afterEach(() => card.dispose());

  it('shows that job, although what the other one needed fails', async () => {
    await show(1);
    ends[0].fail(new Error('Loading chunk 7 failed.'));
    await waitForRender();
    expect(card.node.textContent).not.toContain('chunk 7');
    await come(1, 'part of job 1');
    expect(card.node.textContent).toContain('part of job 1');
  });

  it('shows that job, also where it was closed meanwhile', async () => {
    button(card.node, 'Details of train-digits-0').click();
    await show(1);
    await come(0, 'part of job 0');
    button(card.node, 'Details of train-digits-1').click();
    await waitForRender();
    expect(card.node.textContent).not.toContain('part of job 0');
    await come(1, 'part of job 1');
    expect(card.node.textContent).toContain('part of job 1');
  });
});

it.each([true, false])('a card says what a job lost that completed, live: %s', async isLive => {
  const message = "The job completed, but 'x' was not kept.";
  const model = new FakeModel();
  const summary = completed(0, { message });
  model.state = isLive ? applyListing(EMPTY_STATE, [summary], [], 1).state : EMPTY_STATE;
  const card = new CardRenderer(model, fakeCommands().commands, trans, jest.fn());
  Widget.attach(card, document.body);
  const data = { [CARD_MIME_TYPE]: { id: 'job-0', name: 'train-digits-0', summary } };
  await card.renderModel({ trusted: false, data: data as never, metadata: {}, setData: jest.fn() });
  await waitForRender();
  expect(card.node.querySelector('.jp-smx-says')?.textContent).toBe(message);
  card.dispose();
});

it('an open card that cannot be loaded says so, and is tried again', async () => {
  const model = new FakeModel();
  model.state = applyListing(EMPTY_STATE, [job(0)], [], 1).state;
  const open = jest.fn(() => Promise.reject(new Error('Loading chunk 7 failed.')));
  const card = new CardRenderer(model, fakeCommands().commands, trans, open);
  Widget.attach(card, document.body);
  const data = { [CARD_MIME_TYPE]: { id: 'job-0', name: 'train-digits-0', summary: null } };
  await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() });
  const fold = async (): Promise<void> => {
    button(card.node, 'Details of train-digits-0').click();
    await waitForRender();
  };
  await waitForRender();
  await fold();
  expect(card.node.textContent).toContain('Cannot show this card: Loading chunk 7 failed.');
  await fold();
  await fold();
  expect(open).toHaveBeenCalledTimes(2);
  card.dispose();
});
