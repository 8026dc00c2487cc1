// What can be done to a row of the panel, as a menu for the pointer and for the menu key.

import { MenuSvg } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';

import type { JobSummary, PoolSummary } from '../_types';
import { CommandIDs } from '../commands/commandIds';
import type { Filter } from '../model/filter';
import { listedTasks } from '../state/arrays';
import type { IState } from '../state/state';
import { canBeInterrupted, isFinal, jobHasHosts, poolHasHosts } from '../state/state';
import type { IJobsModel } from '../tokens';

/** What a row says of itself: the id of a job, of an array or of a pool. */
type IRowData = Readonly<Partial<Record<string, string>>>;

const LOOK = [CommandIDs.openJob, CommandIDs.openLog, CommandIDs.openCharts];
const OVER = [CommandIDs.rerunJob, CommandIDs.compareJobs];

/** The commands for a row, in groups; empty for one that is not known any more. */
export function rowCommands(row: IRowData, state: IState): string[][] {
  const job = state.jobs.get(row.job ?? '');
  if (job) {
    const look = jobHasHosts(job) ? [...LOOK, CommandIDs.openShell] : LOOK;
    return isFinal(job) ? [look, OVER, [CommandIDs.deleteJob]] : [look, actsOn(job)];
  }
  if (row.array !== undefined) {
    const last = row.status === 'InProgress' ? CommandIDs.stopArray : CommandIDs.deleteArray;
    const tasks = listedTasks(state, row.array);
    const hasFailed = tasks.some(task => task.status === 'Failed');
    return hasFailed ? [[CommandIDs.rerunFailedTasks], [last]] : [[last]];
  }
  const pool = state.pools.get(row.pool ?? '');
  return pool ? actsOnPool(pool) : [];
}

function actsOnPool(pool: PoolSummary): string[][] {
  const isIdle = pool.expires_at !== null;
  return [
    ...(poolHasHosts(pool) ? [[CommandIDs.openPoolShell]] : []),
    ...(isIdle ? [[CommandIDs.extendPool, CommandIDs.releasePool]] : [])
  ];
}

function actsOn(job: JobSummary): string[] {
  return canBeInterrupted(job)
    ? [CommandIDs.stopJob, CommandIDs.interruptJob]
    : [CommandIDs.stopJob];
}

export class RowMenu implements IDisposable {
  constructor(
    private readonly node: HTMLElement,
    private readonly model: IJobsModel,
    private readonly commands: CommandRegistry,
    private readonly filter: Filter
  ) {
    this._menu = new MenuSvg({ commands });
    node.addEventListener('contextmenu', this._onMenu);
  }

  get isDisposed(): boolean {
    return this._menu.isDisposed;
  }

  dispose(): void {
    this.node.removeEventListener('contextmenu', this._onMenu);
    this._menu.dispose();
  }

  private readonly _onMenu = (event: MouseEvent): void => {
    const row = event.target instanceof Element && event.target.closest('.jp-smx-row');
    if (!(row instanceof HTMLElement)) {
      return;
    }
    const { dataset } = row;
    const id = dataset.job ?? dataset.array ?? dataset.pool ?? '';
    // What is done to an array is done to those of its tasks that are shown.
    const args = { id, filter: this.filter.text };
    this._menu.clearItems();
    for (const group of rowCommands({ ...dataset }, this.model.state)) {
      const there = group.filter(command => this.commands.hasCommand(command));
      if (there.length > 0 && this._menu.items.length > 0) {
        this._menu.addItem({ type: 'separator' });
      }
      there.forEach(command => this._menu.addItem({ command, args }));
    }
    if (this._menu.items.length > 0) {
      // Lab would open the menu of the page.
      event.preventDefault();
      event.stopPropagation();
      this._menu.open(event.clientX, event.clientY);
    }
  };

  private readonly _menu: MenuSvg;
}
