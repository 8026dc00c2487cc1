import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { CARD_MIME_TYPE } from '../../notebook/cardMimeType';
import { CardRenderer } from '../../notebook/cardRenderer';
import { applyListing, EMPTY_STATE } from '../../state/state';
import { job } from '../fixtures/examples';
import { FakeModel, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');
/** Made at 1130, four seconds before the time of the fake model. */
const CARD = { id: 'job-1', name: 'fit-abc123', at: 1130, submission: 'starting' };

describe('a card that stands while the controller starts', () => {
  let model: FakeModel;
  let widget: CardRenderer;

  beforeEach(() => {
    model = new FakeModel();
    widget = new CardRenderer(model, new CommandRegistry(), trans);
    Widget.attach(widget, document.body);
  });

  afterEach(() => widget.dispose());

  async function draw(data: object): Promise<string> {
    const mime = { data: { [CARD_MIME_TYPE]: data }, metadata: {}, trusted: false };
    await widget.renderModel(mime as never);
    await waitForRender();
    return widget.node.textContent ?? '';
  }

  it('names the job and says what is waited for, to screen readers too', async () => {
    expect(await draw(CARD)).toBe('◦fit-abc123Starting the controller…');
    const said = widget.node.querySelector('[role=status]');
    expect(said?.textContent).toBe('Starting the controller…');
    const label = widget.node.querySelector('[role=group]')?.getAttribute('aria-label');
    expect(label).toBe('Job fit-abc123');
    expect(widget.node.querySelectorAll('button')).toHaveLength(0);
  });

  it('lets the model read the job as soon as there is one, and is the card of that job then', async () => {
    await draw({ ...CARD, records_id: 'here' });
    expect(model.expectJob.mock.calls).toEqual([['job-1', 'here']]);
    model.become(applyListing(EMPTY_STATE, [job(1)], [], 1, null, 1134).state);
    await waitForRender();
    expect(widget.node.textContent).toContain(job(1).name);
    expect(widget.node.textContent).not.toContain('Starting');
  });

  it('says that there is no job where the submission failed, and asks for none', async () => {
    const text = await draw({ ...CARD, submission: 'failed' });
    expect(text).toBe('✗fit-abc123The submission failed: see the error below.');
    expect(model.expectJob).not.toHaveBeenCalled();
  });

  it.each([1000, undefined])('does not start forever in a notebook of %p', async at => {
    const text = await draw({ ...CARD, at });
    expect(text).toContain('The notebook was saved while the controller started');
    expect(text).not.toContain('Starting');
  });

  it('cuts a long name and shows markup as text', async () => {
    const text = await draw({ ...CARD, name: `<b>${'x'.repeat(5000)}` });
    expect(text).toContain('<b>xxx');
    expect(text.length).toBeLessThan(300);
  });

  it('is an ordinary card where the word is unknown', async () => {
    expect(await draw({ ...CARD, submission: 'later' })).toBe('fit-abc123');
  });
});
