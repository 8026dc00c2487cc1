// What the status bar shows while a front for clients of SageMaker runs: whose jobs train here, and the way back.

import { PageConfig } from '@jupyterlab/coreutils';
import type { IStatusBar } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import type { IJobsModel } from '../tokens';

/** Add the item to a status bar, which shows it while a front runs. */
export function addAwsItem(
  id: string,
  bar: IStatusBar,
  model: IJobsModel,
  trans: TranslationBundle
): void {
  const item = new AwsItem(model, trans);
  bar.registerStatusItem(id, {
    item,
    align: 'left',
    rank: 21,
    isActive: () => item.isActive,
    activeStateChanged: item.activeStateChanged
  });
}

class AwsItem extends Widget {
  constructor(
    private readonly model: IJobsModel,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-smx-aws');
    this.node.textContent = trans.__('AWS → local');
    model.changed.connect(this._follow, this);
    this._follow();
  }

  /** Whether a front runs. */
  get isActive(): boolean {
    return this._address !== '';
  }

  /** Emitted when a front was started or ended. */
  get activeStateChanged(): ISignal<this, void> {
    return this._activeStateChanged;
  }

  dispose(): void {
    Signal.clearData(this);
    super.dispose();
  }

  private _follow(): void {
    const address = this.model.state.awsUrl ?? '';
    if (address === this._address) {
      return;
    }
    this._address = address;
    this.node.title = this._title();
    this._activeStateChanged.emit();
  }

  private _title(): string {
    const { trans, _address: address } = this;
    // The Jupyter server sets it where kernels and terminals inherit the variables.
    return PageConfig.getOption('smxAws')
      ? trans.__(
          'SageMaker clients of new kernels and terminals train here (%1). Back to AWS in a notebook: %smx aws off',
          address
        )
      : trans.__(
          'The front for SageMaker clients runs (%1). Those of kernels and terminals that turned it on train here. Back to AWS in a notebook: %smx aws off',
          address
        );
  }

  private _address = '';
  private readonly _activeStateChanged = new Signal<this, void>(this);
}
