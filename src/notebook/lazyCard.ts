// The place of a card in an output. It loads the code that draws cards, unless a notebook has loaded it already.

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';
import { Panel } from '@lumino/widgets';

import { loadNoticeWidget } from '../components/loadNotice';
import type { LazyCode } from '../widgets/lazyCode';

/** Makes the renderer of one card. */
export type CardFactory = () => IRenderMime.IRenderer;

/** Passes the models of an output to its card. JupyterLab takes it before the code of cards is loaded. */
export class LazyCard extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly factory: LazyCode<CardFactory>,
    private readonly trans: TranslationBundle
  ) {
    super();
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._model = model;
    const create = await this.factory.request().catch(() => null);
    if (this.isDisposed) {
      return;
    }
    if (create === null) {
      this._replace(this._notice());
      return;
    }
    if (this._card === null) {
      this._card = create();
      this._replace(this._card);
    }
    // The newest model, because the kernel may have updated the card while the code was loaded.
    await this._card.renderModel(this._model);
  }

  private _replace(widget: Widget): void {
    [...this.widgets].forEach(one => one.dispose());
    this.addWidget(widget);
  }

  private _notice(): Widget {
    const { trans } = this;
    return loadNoticeWidget({
      failure: trans.__('Cannot load the card.'),
      trans,
      onRetry: () => void (this._model && this.renderModel(this._model))
    });
  }

  private _model: IRenderMime.IMimeModel | null = null;
  private _card: IRenderMime.IRenderer | null = null;
}
