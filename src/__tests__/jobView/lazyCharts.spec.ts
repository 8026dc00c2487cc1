import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { ChartsView } from '../../charts';
import type { IJobViewContext } from '../../jobView/context';
import { LazyCharts } from '../../jobView/lazyCharts';
import { button, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

describe('the place of the charts', () => {
  const load = jest.fn();
  let slot: LazyCharts;

  beforeEach(() => {
    load.mockReset();
    const context = { trans, name: 'digits', record: { summary: null }, history: {} };
    slot = new LazyCharts(context as unknown as IJobViewContext, load);
    slot.hide();
    Widget.attach(slot, document.body);
  });

  afterEach(() => slot.dispose());

  /** Stands for the charts, which have tests of their own. */
  class Drawn extends Widget {
    constructor() {
      super();
      this.addClass('drawn');
    }
  }
  const charts = { ChartsView: Drawn as unknown as typeof ChartsView };

  it('loads them once, when somebody looks', async () => {
    load.mockResolvedValue(charts);
    expect(load).not.toHaveBeenCalled();
    slot.show();
    await waitForRender();
    slot.hide();
    slot.show();
    await waitForRender();
    expect(load).toHaveBeenCalledTimes(1);
    expect(slot.node.querySelectorAll('.drawn')).toHaveLength(1);
  });

  it('says that they could not be loaded, and tries again when it is asked to or shown again', async () => {
    load.mockRejectedValue(new Error('ChunkLoadError'));
    slot.show();
    await waitForRender();
    const alert = (): HTMLElement | null => slot.node.querySelector('[role=alert]');
    expect(alert()?.textContent).toContain('Cannot load the charts');
    button(slot.node, 'Try again').click();
    await waitForRender();
    expect(load).toHaveBeenCalledTimes(2);
    expect(slot.node.querySelectorAll('[role=alert]')).toHaveLength(1);
    load.mockResolvedValue(charts);
    slot.hide();
    slot.show();
    await waitForRender();
    expect(alert()).toBeNull();
    expect(slot.node.querySelectorAll('.drawn')).toHaveLength(1);
  });

  it('draws nothing where it was closed meanwhile', async () => {
    let answer: (loaded: typeof charts) => void = () => undefined;
    load.mockReturnValue(new Promise(resolve => (answer = resolve)));
    slot.show();
    slot.dispose();
    answer(charts);
    await waitForRender();
    expect(slot.node.childElementCount).toBe(0);
  });

  it('draws nothing where they were closed while what draws them was on its way', async () => {
    const never = (): Promise<never> => new Promise(() => undefined);
    const source = { usage: never, metrics: never };
    const view = new ChartsView({ source, name: 'digits', page: document, trans });
    Widget.attach(view, document.body);
    view.dispose();
    await waitForRender();
    expect(view.node.childElementCount).toBe(0);
  });
});
