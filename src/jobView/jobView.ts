// The view of one job in the main area: a fixed head, and sections under tabs.

import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import { Panel, TabBar, Widget } from '@lumino/widgets';

import type { LogView } from '../log/index';
import type { IJobViewContext } from './context';
import { HeaderView } from './header';
import { LazyCharts } from './lazyCharts';
import {
  CodeView,
  CompareView,
  CostView,
  EnvironmentView,
  EventsView,
  FilesView
} from './sectionWidgets';

export type SectionName =
  'log' | 'charts' | 'files' | 'code' | 'environment' | 'events' | 'cost' | 'compare';

export class JobView extends Panel {
  constructor(
    private readonly context: IJobViewContext,
    log: LogView
  ) {
    super();
    const { record, trans } = context;
    this.id = record.id;
    this.addClass('jp-smx-view');
    this.node.setAttribute('role', 'region');
    log.title.label = trans.__('Log');
    this.addWidget(new HeaderView(context));
    this.addWidget(this._tabs);
    // Connect the signal first: the first tab is selected when it is added.
    this._tabs.currentChanged.connect(this._onTab, this);
    this._add('log', log);
    this._add('charts', new LazyCharts(context));
    this._add('files', new FilesView(context));
    this._add('code', new CodeView(context));
    this._add('environment', new EnvironmentView(context));
    this._add('events', new EventsView(context));
    this._add('cost', new CostView(context));
    this._compare = new CompareView(context);
    this._add('compare', this._compare);
    record.changed.connect(this._onRecord, this);
    this._onRecord();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.context.record.dispose();
      super.dispose();
    }
  }

  /** Show one of the sections. */
  openSection(section: SectionName): void {
    const widget = this._sections.get(section);
    if (widget) {
      this._tabs.currentTitle = widget.title;
    }
  }

  /** Show how the job differs from another one, or from the run before it (''). */
  compareWith(other: string): void {
    this._compare.choose(other);
    this.openSection('compare');
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.context.record.setVisible(this.isVisible);
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.context.record.setVisible(this.isVisible);
  }

  protected onBeforeHide(msg: Message): void {
    this.context.record.setVisible(false);
    super.onBeforeHide(msg);
  }

  protected onBeforeDetach(msg: Message): void {
    this.context.record.setVisible(false);
    super.onBeforeDetach(msg);
  }

  protected onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    // JupyterLab focuses the view itself, where the focus is invisible: move it to the tabs.
    const { activeElement } = document;
    if (activeElement === this.node || !this.node.contains(activeElement)) {
      this._focusTab();
    }
  }

  private _add(name: SectionName, section: Widget): void {
    this._sections.set(name, section);
    section.hide();
    section.addClass('jp-smx-view-body');
    section.node.setAttribute('role', 'tabpanel');
    this._tabs.addTab(section.title);
    const key = this._drawer.createTabKey({ title: section.title, current: false, zIndex: 0 });
    section.node.setAttribute('aria-labelledby', key);
    this.addWidget(section);
  }

  private _onTab(_: TabBar<Widget>, change: TabBar.ICurrentChangedArgs<Widget>): void {
    const hadFocus = this._tabs.contentNode.contains(document.activeElement);
    change.previousTitle?.owner.hide();
    change.currentTitle?.owner.show();
    if (hadFocus) {
      // A click does not move the focus, and the focus ring would stay on the tab selected before.
      MessageLoop.sendMessage(this._tabs, Widget.Msg.UpdateRequest);
      this._focusTab();
    }
  }

  private _focusTab(): void {
    const { contentNode, currentIndex } = this._tabs;
    (contentNode.children[currentIndex] as HTMLElement | undefined)?.focus();
  }

  private _onRecord(): void {
    const { record, name, trans } = this.context;
    const title = record.summary?.name ?? name;
    this.title.label = title || trans.__('Job');
    this.title.caption = trans.__('Job %1', title);
    this.node.setAttribute('aria-label', trans.__('Job %1', title));
    this._tabs.contentNode.setAttribute('aria-label', trans.__('Sections of job %1', title));
  }

  private readonly _sections = new Map<SectionName, Widget>();
  private readonly _compare: CompareView;
  private readonly _drawer = new TabBar.Renderer();
  private readonly _tabs = new TabBar<Widget>({ tabsMovable: false, renderer: this._drawer });
}
