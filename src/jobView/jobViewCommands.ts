// The commands that open the view of a job and compare two jobs.

import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs, JOB_PROPERTIES } from '../commands/commandIds';
import { chooseItem, jobFromArgs } from '../commands/prompts';
import { whileReachable } from '../commands/reachability';
import type { INamedJob } from '../state/state';
import { orderedJobs } from '../state/state';
import type { JobTabs } from '../widgets/jobTabs';
import type { IJobViewOptions, JobView, SectionName } from '.';

const OPEN_ARGS = {
  type: 'object',
  properties: {
    ...JOB_PROPERTIES,
    section: { type: 'string', description: 'Section to show, e.g. "files"; the log by default' }
  }
};

const COMPARE_ARGS = {
  type: 'object',
  properties: {
    ...JOB_PROPERTIES,
    with: { type: 'string', description: 'ID of the other job; the previous run by default' }
  }
};

/**
 * Add both commands. They show an open tab again; the code of a tab is loaded with the first one.
 */
export function addJobViewCommands(options: IJobViewOptions, tabs: JobTabs<JobView>): void {
  const { app, model, trans } = options;
  app.commands.addCommand(CommandIDs.openJob, {
    label: trans.__('Open Job'),
    caption: trans.__('Show the log, files, code, environment, events and cost of a job'),
    describedBy: { args: OPEN_ARGS },
    execute: async args => {
      const job = await jobFromArgs(args, model, trans);
      const view = job && (await openView(job, options, tabs));
      view?.openSection(textOf(args, 'section') as SectionName);
    }
  });
  app.commands.addCommand(CommandIDs.compareJobs, {
    label: trans.__('Compare Jobs…'),
    caption: trans.__('Show the differences between two jobs'),
    ...whileReachable(model),
    describedBy: { args: COMPARE_ARGS },
    execute: async args => {
      const job = await jobFromArgs(args, model, trans);
      const other = job && (args.id ? textOf(args, 'with') : await promptForOther(job, options));
      if (job && other !== null) {
        const view = await openView(job, options, tabs);
        view.compareWith(other);
      }
    }
  });
}

function textOf(args: ReadonlyPartialJSONObject, name: string): string {
  const value = args[name];
  return typeof value === 'string' ? value : '';
}

/** Ask for the second job: return an id, '' for the run before, or null if the user cancelled. */
async function promptForOther(
  job: INamedJob,
  { model, trans }: IJobViewOptions
): Promise<string | null> {
  const before = { id: '', name: trans.__('Previous run') };
  const others = orderedJobs(model.state).filter(one => one.id !== job.id);
  const title = trans.__('Compare %1 With', job.name);
  const found = await chooseItem<INamedJob>([before, ...others], one => one.name, title, trans);
  return found?.id ?? null;
}

async function openView(
  job: INamedJob,
  options: IJobViewOptions,
  tabs: JobTabs<JobView>
): Promise<JobView> {
  const { loadDisplayOptions, createJobView } = await import('.');
  const displayOptions = await loadDisplayOptions(options.model, options.registry);
  return tabs.show(job, () => createJobView(job, options, displayOptions));
}
