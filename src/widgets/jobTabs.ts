// Tabs that show a job in one way: each job has one, which is found again and comes back when the page is loaded again.

import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';

import { jobsIcon } from '../components/icons';
import { NAME_LIMIT, plainText } from '../format/plainText';
import type { INamedJob } from '../state/state';
import { activateInMainArea, addToMainArea } from './mainArea';

export class JobTabs<T extends Widget> {
  /**
   * `kind` is in the ids of the tabs, and so in every layout that is kept. `labelOf` says which kind it is, beside the
   * name of the job; without it, the name alone is the label.
   */
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly kind: string,
    private readonly icon: LabIcon = jobsIcon,
    private readonly labelOf: (name: string) => string = name => name
  ) {
    this._tabs = new WidgetTracker({ namespace: `jupyter-smx-${kind}` });
  }

  /** Show the tab of a job, made first where it has none. */
  show(job: INamedJob, make: () => T): T {
    const id = this._prefix + job.id;
    const tab = this._tabs.find(one => one.id === id) ?? this._addTab(id, job.name, make());
    activateInMainArea(this.app.shell, tab);
    return tab.content;
  }

  /** Open again what was open, by the command that takes `JOB_ARGS`. */
  restore(restorer: ILayoutRestorer | null, command: string): void {
    const jobOf = (tab: Widget): string => tab.id.slice(this._prefix.length);
    void restorer?.restore(this._tabs, {
      command,
      args: tab => ({ id: jobOf(tab), name: this._names.get(tab.id) || tab.title.label }),
      name: jobOf
    });
  }

  private _addTab(id: string, name: string, content: T): MainAreaWidget<T> {
    const tab = new MainAreaWidget({ content });
    // What is shown has its own, and an empty one takes a line of the page.
    tab.toolbar.hide();
    tab.id = id;
    this._names.set(id, name);
    tab.disposed.connect(() => this._names.delete(id));
    tab.title.label = this.labelOf(plainText(name, NAME_LIMIT));
    tab.title.icon = this.icon;
    tab.title.closable = true;
    addToMainArea(this.app.shell, tab);
    void this._tabs.add(tab);
    return tab;
  }

  private get _prefix(): string {
    return `jupyter-smx-${this.kind}-`;
  }

  /** The names of the jobs, by the ids of their tabs. */
  private readonly _names = new Map<string, string>();
  private readonly _tabs: WidgetTracker<MainAreaWidget<T>>;
}
