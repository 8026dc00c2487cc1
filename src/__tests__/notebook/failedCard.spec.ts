import { Clipboard } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import type { JobSummary } from '../../_types';
import type { ICardDetails } from '../../notebook/cardRenderer';
import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { ClosedFailures } from '../../notebook/closedFailures';
import { applyFailure } from '../../state/connectionState';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { completed, job } from '../fixtures/examples';
import { FakeStorage } from '../fixtures/fakeBrowser';
import { button, fakeCommands, FakeModel, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

const CURE = 'x is a notebook variable that was not sent to the job. Add --send x';
const failed = (fields: Partial<JobSummary> = {}): JobSummary =>
  completed(0, {
    status: 'Failed',
    secondary_status: 'Failed',
    failure_type: 'NameError',
    failure_line: 2,
    message: `AlgorithmError: NameError: name 'x' is not defined. ${CURE}`,
    ...fields
  });
const RECORD = {
  failure_reason: '',
  failure_message: "AlgorithmError: NameError: name 'x' is not defined",
  failure_cure: CURE
};

describe('the card of a job that failed', () => {
  let model: FakeModel;
  let storage: FakeStorage;
  let cards: CardRenderer[];

  beforeEach(() => {
    model = new FakeModel();
    storage = new FakeStorage();
    cards = [];
  });

  afterEach(() => cards.forEach(one => one.dispose()));

  async function show(summary: JobSummary): Promise<CardRenderer> {
    const open = (): Promise<ICardDetails> => {
      const detail = {
        record: { job: RECORD },
        changed: new Signal({}),
        setVisible: jest.fn(),
        dispose: jest.fn()
      };
      return Promise.resolve({ More: () => null, detail } as never);
    };
    const closed = new ClosedFailures(storage, 'closed');
    const card = new CardRenderer(model, fakeCommands().commands, trans, open, closed);
    cards.push(card);
    Widget.attach(card, document.body);
    const data = { [CARD_MIME_TYPE]: { id: 'job-0', name: summary.name, summary } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() } as never);
    await waitForRender();
    return card;
  }

  async function become(summary: JobSummary): Promise<void> {
    model.become(applyListing(EMPTY_STATE, [summary], [], 1).state);
    await waitForRender();
  }

  const reason = (card: CardRenderer): string | null | undefined =>
    card.node.querySelector('[aria-label="Reason of the failure"]')?.textContent;

  it('opens by itself with cause, cure and its line to copy, and names the kind', async () => {
    await become(job(0));
    const card = await show(job(0));
    expect(reason(card)).toBeUndefined();
    await become(failed());
    expect(card.node.querySelector('[role=status]')?.textContent).toContain(
      'Failed: NameError, line 2'
    );
    expect(reason(card)).toContain("name 'x' is not defined");
    expect(card.node.querySelector('.jp-smx-cure')?.textContent).toBe(CURE);
    expect(card.node.querySelector('code')?.textContent).toBe('--send x');
    const copy = jest.spyOn(Clipboard, 'copyToSystem').mockImplementation(() => undefined);
    button(card.node, 'Copy').click();
    await waitForRender();
    expect(copy.mock.calls).toEqual([['--send x']]);
    expect(card.node.textContent).toContain('Copied');
  });

  it('does not open again when the user closed it, also after a reload', async () => {
    await become(failed());
    const card = await show(failed());
    expect(reason(card)).toBeDefined();
    button(card.node, 'Details of train-digits-0').click();
    await waitForRender();
    expect(reason(card)).toBeUndefined();
    await become(failed({ cost: 1 }));
    expect(reason(card)).toBeUndefined();
    const again = await show(failed());
    expect(reason(again)).toBeUndefined();
    button(again.node, 'Details of train-digits-0').click();
    await waitForRender();
    expect(reason(again)).toBeDefined();
  });

  it('opens for another job although the one before was closed, and closes with a rerun', async () => {
    await become(failed());
    const card = await show(failed());
    const other = job(1);
    model.become(applyListing(EMPTY_STATE, [failed(), other], [], 2).state);
    const data = { [CARD_MIME_TYPE]: { id: 'job-1', name: other.name, summary: other } };
    await card.renderModel({ trusted: false, data, metadata: {}, setData: jest.fn() } as never);
    await waitForRender();
    expect(button(card.node, 'Details of train-digits-1').getAttribute('aria-expanded')).toBe(
      'false'
    );
  });

  it('stays closed if the job failed long ago', async () => {
    model.now = () => 1100 + 3601;
    await become(failed());
    expect(reason(await show(failed()))).toBeUndefined();
  });

  it('says why in a saved notebook, where nothing can be opened', async () => {
    const card = await show(failed());
    expect(reason(card)).toContain(CURE);
    expect(card.node.querySelector('button')).toBeNull();
  });

  it('shows markup, control characters and long text as text', async () => {
    const card = await show(
      failed({ name: `<img src=x>\u202e${'n'.repeat(5000)}`, message: '<b>\u0007bold</b>' })
    );
    expect(reason(card)).toBe('<b>bold</b>');
    expect(card.node.querySelector('b, img')).toBeNull();
    expect(card.node.querySelector('.jp-smx-name')?.textContent).toHaveLength(200);
  });

  it('stops its clock and disables its buttons while the server does not answer', async () => {
    await become(job(0));
    const card = await show(job(0));
    const clock = (): string | null | undefined =>
      card.node.querySelector('.jp-smx-time [aria-hidden]')?.textContent;
    expect(clock()).toBe('02:14');
    const lost = { kind: 'lost', status: 0, message: '', retryAfter: 0 } as const;
    model.become(applyFailure({ ...model.state, lastResponseAt: 1134 }, lost));
    model.now = () => 1200;
    card.update();
    await waitForRender();
    expect(clock()).toBe('02:14');
    const stop = button(card.node, 'Stop train-digits-0');
    expect(stop.getAttribute('aria-disabled')).toBe('true');
  });
});

describe('the failures whose cards were closed', () => {
  it('are the newest 200, and none where something else was stored', () => {
    const storage = new FakeStorage();
    const closed = new ClosedFailures(storage, 'closed');
    Array.from({ length: 201 }, (_, number) => closed.add(`job-${number}`));
    expect([closed.has('job-0'), closed.has('job-1'), closed.has('job-200')]).toEqual([
      false,
      true,
      true
    ]);
    for (const broken of ['{', '3', 'null']) {
      storage.setItem('closed', broken);
      expect(closed.has('job-1')).toBe(false);
    }
  });
});
