// The panel "Jobs and pools" of the left sidebar.

import type { TranslationBundle } from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { AccordionPanel } from '@lumino/widgets';

import { jobsIcon } from '../components/icons';
import { formatCounts } from '../format/jobText';
import { Filter } from '../model/filter';
import { parseJobOrder } from '../model/jobOrder';
import type { IJobsModel } from '../tokens';
import { LazyCode } from '../widgets/lazyCode';
import { HeaderView } from './headerView';
import type { ListComponents, ListSection } from './listSection';
import { FinishedView, PoolsView, RunningView } from './listViews';
import { RowMenu } from './rowMenu';
import type { IViewOptions } from './sectionView';

/** The sections in their order. */
const SECTIONS = ['running', 'pools', 'finished'];

/** What runs, what waits and which pools are out of reach; if that is not known, what the panel is. */
export function describePanel(model: IJobsModel, trans: TranslationBundle): string {
  return model.state.connectionStatus === 'ready'
    ? formatCounts(model.state, model.now(), trans)
    : trans.__('Show the panel of jobs and warm pools');
}

/**
 * A notice when the server half does not answer, then running jobs, warm pools and finished jobs.
 */
export class JobsPanel extends SidePanel {
  /** `loadLists` imports what draws the lists. */
  constructor(
    options: IViewOptions,
    loadLists: () => Promise<ListComponents> = () => import('./lists')
  ) {
    super();
    const { trans } = options;
    this.id = 'jupyter-smx-panel';
    this.addClass('jp-smx-panel');
    this.title.icon = jobsIcon;
    this.title.caption = trans.__('Jobs and pools');
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Jobs and pools'));
    const filter = new Filter();
    this.header.addWidget(new HeaderView({ ...options, filter }));
    const lists = new LazyCode(loadLists);
    this._finished = new FinishedView({ ...options, filter, lists });
    this._sections = [
      new RunningView({ ...options, filter, lists }),
      new PoolsView({ ...options, filter, lists }),
      this._finished
    ];
    this._sections.forEach(section => this.addWidget(section));
    this._menu = new RowMenu(this.node, options.model, options.commands, filter);
  }

  dispose(): void {
    this._menu.dispose();
    super.dispose();
  }

  /** Load what draws the lists, so that a panel that is hidden opens with its rows. */
  async load(): Promise<void> {
    await Promise.all(this._sections.map(section => section.load()));
  }

  /** Show the finished jobs in the order that a setting names, where anything may stand. */
  sortFinished(order: unknown): void {
    this._finished.sort(parseJobOrder(order));
  }

  /** Open the sections that are named and close the others. */
  unfold(sections: readonly string[]): void {
    SECTIONS.forEach((name, index) => {
      const panel = this.content as AccordionPanel;
      if (sections.includes(name)) {
        panel.expand(index);
      } else {
        panel.collapse(index);
      }
    });
  }

  protected onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    // Focus the panel for keyboard users: from elsewhere its buttons are many tab stops away.
    if (!this.node.contains(document.activeElement)) {
      this.node.focus();
    }
  }

  private readonly _finished: FinishedView;
  private readonly _sections: readonly ListSection[];
  private readonly _menu: RowMenu;
}
