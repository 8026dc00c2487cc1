// Tabs that show a job in one way: each job has one, which is found again and comes back when the page is loaded again.

import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';

import type { JobSummary } from './_types';
import { jobsIcon } from './icons';
import { place } from './place';
import type { IJobsModel } from './tokens';

/** What of a job a tab needs; the page that is loaded again knows no more at first. */
export interface INamedJob {
  id: string;
  name: string;
}

export const JOB_PROPERTIES: ReadonlyJSONObject = {
  id: { type: 'string', description: 'The id of the job; without it, which one is asked' },
  name: { type: 'string', description: 'Its name, of a job that the panel does not list' }
};
/** The arguments of a command that opens one. */
export const JOB_ARGS: ReadonlyJSONObject = { type: 'object', properties: JOB_PROPERTIES };

export class JobTabs<T extends Widget> {
  /** `kind` is in the ids of the tabs, and so in every layout that is kept. */
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly kind: string
  ) {
    this._tabs = new WidgetTracker({ namespace: `jupyter-smx-${kind}` });
  }

  /** Show the tab of a job, made first where it has none. */
  show(job: INamedJob, make: () => T): T {
    const id = this._prefix + job.id;
    const tab = this._tabs.find(one => one.id === id) ?? this._added(id, job.name, make());
    this.app.shell.activateById(id);
    return tab.content;
  }

  /** Open again what was open, by the command that takes `JOB_ARGS`. */
  restore(restorer: ILayoutRestorer | null, command: string): void {
    const jobOf = (tab: Widget): string => tab.id.slice(this._prefix.length);
    void restorer?.restore(this._tabs, {
      command,
      args: tab => ({ id: jobOf(tab), name: tab.title.label }),
      name: jobOf
    });
  }

  private _added(id: string, name: string, content: T): MainAreaWidget<T> {
    const tab = new MainAreaWidget({ content });
    // What is shown has its own, and an empty one takes a line of the page.
    tab.toolbar.hide();
    tab.id = id;
    tab.title.label = name;
    tab.title.icon = jobsIcon;
    tab.title.closable = true;
    place(this.app.shell, tab);
    void this._tabs.add(tab);
    return tab;
  }

  private get _prefix(): string {
    return `jupyter-smx-${this.kind}-`;
  }

  private readonly _tabs: WidgetTracker<MainAreaWidget<T>>;
}

/**
 * The job that the arguments name, or the one that a person chooses.
 *
 * One that is not listed is not unknown: the page may not have listed any yet.
 */
export async function namedJob(
  args: ReadonlyPartialJSONObject,
  model: IJobsModel,
  trans: TranslationBundle
): Promise<INamedJob | null> {
  const { id, name } = args;
  if (typeof id === 'string' && id) {
    const listed = model.state.jobs.get(id);
    return { id, name: listed?.name ?? (typeof name === 'string' && name ? name : id) };
  }
  const { jobOf } = await import('./ask');
  return jobOf(args, model, await listedJobs(model), trans);
}

/** All jobs that the page knows, in the order of the panel. */
export async function listedJobs({ state }: IJobsModel): Promise<JobSummary[]> {
  // Most pages load this file for its commands' forms only.
  const { finished, running } = await import('./state');
  return [...running(state), ...finished(state)];
}
