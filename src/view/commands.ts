// The commands that open the view of a job and compare two jobs.

import type { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type { JobSummary } from '../_types';
import { CommandIDs } from '../ids';
import { place } from '../place';
import { finished, running } from '../state';
import type { IOpenOptions, JobView } from '.';

type Tabs = WidgetTracker<MainAreaWidget<JobView>>;

interface INamed {
  id: string;
  name: string;
}

const JOB: ReadonlyJSONObject = {
  type: 'string',
  description: 'The id of the job; without it, which one is asked'
};

/**
 * Add both; a tab that is open is shown again, and what makes one is loaded with the first.
 */
export function addJobCommands(options: IOpenOptions, tabs: Tabs): void {
  const { app, trans } = options;
  app.commands.addCommand(CommandIDs.openJob, {
    label: trans.__('Open Job'),
    caption: trans.__('Show the log, files, code, environment, events and cost of a job'),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          id: JOB,
          name: { type: 'string', description: 'Its name, shown until its record is read' }
        }
      }
    },
    execute: async args => {
      const job = await named(args, options);
      return job && opened(job, options, tabs);
    }
  });
  app.commands.addCommand(CommandIDs.compareJobs, {
    label: trans.__('Compare Jobs…'),
    caption: trans.__('Show in what two jobs differ'),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          id: JOB,
          with: {
            type: 'string',
            description: 'The id of the other job; without it, the run before'
          }
        }
      }
    },
    execute: async args => {
      const job = await named(args, options);
      const other = job && (args.id ? textOf(args, 'with') : await asked(job, options));
      if (job && other !== null) {
        const tab = await opened(job, options, tabs);
        tab.content.compareWith(other);
      }
    }
  });
}

function textOf(args: ReadonlyPartialJSONObject, name: string): string {
  const value = args[name];
  return typeof value === 'string' ? value : '';
}

async function named(
  args: ReadonlyPartialJSONObject,
  { model, trans }: IOpenOptions
): Promise<INamed | null> {
  const id = textOf(args, 'id');
  const listed = model.state.jobs.get(id);
  if (id) {
    // A job that is not listed is not unknown: the page may not have listed any yet.
    return { id, name: listed?.name ?? (textOf(args, 'name') || id) };
  }
  const { jobOf } = await import('../ask');
  return jobOf(args, model, candidates(model.state), trans);
}

function candidates(state: IOpenOptions['model']['state']): JobSummary[] {
  return [...running(state), ...finished(state)];
}

/** Ask for the second job: an id, '' for the run before, null where nobody chose. */
async function asked(job: INamed, { model, trans }: IOpenOptions): Promise<string | null> {
  const { chosen } = await import('../ask');
  const before = { id: '', name: trans.__('The run of the same name before it') };
  const others = candidates(model.state).filter(one => one.id !== job.id);
  const title = trans.__('Compare %1 with which job?', job.name);
  const found = await chosen<INamed>([before, ...others], one => one.name, title, trans);
  return found?.id ?? null;
}

async function opened(
  job: INamed,
  options: IOpenOptions,
  tabs: Tabs
): Promise<MainAreaWidget<JobView>> {
  const { jobTab } = await import('.');
  let tab = tabs.find(one => one.content.id === job.id);
  if (!tab) {
    tab = jobTab(job, options);
    tab.id = `jupyter-smx-job-${job.id}`;
    place(options.app.shell, tab);
    await tabs.add(tab);
  }
  options.app.shell.activateById(tab.id);
  return tab;
}
