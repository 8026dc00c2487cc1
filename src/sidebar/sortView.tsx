// The choice of the order of finished jobs, beside the title of their section.

import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';

import type { JobOrder } from '../model/jobOrder';

export class SortView extends ReactWidget {
  constructor(
    private readonly trans: TranslationBundle,
    /** Called when a user chose another order. */
    private readonly onChange: (order: JobOrder) => void
  ) {
    super();
    this.addClass('jp-smx-sort');
  }

  get order(): JobOrder {
    return this._order;
  }

  set order(order: JobOrder) {
    this._order = order;
    this.update();
  }

  protected render(): JSX.Element {
    const { trans } = this;
    const words: Record<JobOrder, string> = {
      newest: trans.__('Newest'),
      name: trans.__('Name'),
      duration: trans.__('Duration')
    };
    return (
      <select
        aria-label={trans.__('Sort finished jobs')}
        title={trans.__('Sort the finished jobs that are loaded')}
        value={this._order}
        // The title of the section opens and closes it by a click, and by Enter and Space.
        onClick={event => event.stopPropagation()}
        onKeyDown={event => event.stopPropagation()}
        onChange={event => this._choose(event.target.value as JobOrder)}
      >
        {Object.entries(words).map(([order, label]) => (
          <option key={order} value={order}>
            {label}
          </option>
        ))}
      </select>
    );
  }

  private _choose(order: JobOrder): void {
    this.order = order;
    this.onChange(order);
  }

  private _order: JobOrder = 'newest';
}
