// After a cell that may start the front for clients of AWS, the page reads at once whether one runs.

import type { Cell } from '@jupyterlab/cells';
import { NotebookActions } from '@jupyterlab/notebook';

import type { IJobsModel } from '../tokens';

const MAGIC = /^\s*%smx\s+aws\b/m;

/** Follow the cells of all notebooks; once for a model, however often it is called. */
export function followAwsMagic(model: IJobsModel): void {
  NotebookActions.executed.connect(onExecuted, model);
}

function onExecuted(this: IJobsModel, _: unknown, { cell }: { cell: Cell }): void {
  if (MAGIC.test(cell.model.sharedModel.getSource())) {
    void this.refresh(); // also where a proxy removes the header of changes
  }
}
