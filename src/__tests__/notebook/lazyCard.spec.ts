import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { CardFactory } from '../../notebook/lazyCard';
import { LazyCard } from '../../notebook/lazyCard';
import { LazyCode } from '../../widgets/lazyCode';
import { button, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

/** Stands for the renderer of a card, which has tests of its own. */
class Drawn extends Widget implements IRenderMime.IRenderer {
  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.addClass('drawn');
    this.node.textContent = model.data.text as string;
    return Promise.resolve();
  }
}

const outputOf = (text: string): IRenderMime.IMimeModel => ({
  data: { text },
  metadata: {},
  trusted: false,
  setData: () => undefined
});

describe('the place of a card', () => {
  const load = jest.fn<Promise<CardFactory>, []>();
  const create: CardFactory = () => new Drawn();
  let code: LazyCode<CardFactory>;
  let card: LazyCard;

  beforeEach(() => {
    load.mockReset();
    code = new LazyCode(load);
    card = new LazyCard(code, trans);
    Widget.attach(card, document.body);
  });

  afterEach(() => card.dispose());

  const drawn = (): (string | null)[] =>
    [...card.node.querySelectorAll('.drawn')].map(one => one.textContent);

  it('loads the code once for all cards, with the first output', async () => {
    load.mockResolvedValue(create);
    const other = new LazyCard(code, trans);
    expect(load).not.toHaveBeenCalled();
    await Promise.all([card.renderModel(outputOf('one')), other.renderModel(outputOf('two'))]);
    expect(drawn()).toEqual(['one']);
    expect(other.node.textContent).toBe('two');
    expect(load).toHaveBeenCalledTimes(1);
    other.dispose();
  });

  it('has one renderer, and draws the newest of the outputs that came while the code was loaded', async () => {
    let answer: (factory: CardFactory) => void = () => undefined;
    load.mockReturnValue(new Promise(resolve => (answer = resolve)));
    const first = card.renderModel(outputOf('starting'));
    const second = card.renderModel(outputOf('running'));
    expect(drawn()).toEqual([]);
    answer(create);
    await Promise.all([first, second]);
    expect(drawn()).toEqual(['running']);
    await card.renderModel(outputOf('over'));
    expect(drawn()).toEqual(['over']);
  });

  it('says that the code could not be loaded, and tries again when it is asked to', async () => {
    load.mockRejectedValueOnce(new Error('ChunkLoadError'));
    load.mockResolvedValueOnce(create);
    await card.renderModel(outputOf('one'));
    await waitForRender();
    expect(card.node.querySelector('[role=alert]')?.textContent).toContain('Cannot load the card.');
    button(card.node, 'Try again').click();
    await waitForRender();
    expect(card.node.querySelector('[role=alert]')).toBeNull();
    expect(drawn()).toEqual(['one']);
  });

  it('draws nothing after its output was cleared', async () => {
    let answer: (factory: CardFactory) => void = () => undefined;
    load.mockReturnValue(new Promise(resolve => (answer = resolve)));
    const rendered = card.renderModel(outputOf('one'));
    card.dispose();
    answer(create);
    await rendered;
    expect(drawn()).toEqual([]);
  });
});
