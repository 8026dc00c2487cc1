// Finding the cell of a job: in the notebooks that are open, else in the notebook's file.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';

import { findCell } from './codeDiff';
import type { IJobRecord, IPlaces } from './jobSource';

/** The code that stands where a job's code came from, now. */
export interface ICurrentCode {
  text: string;
  /** Its file, as the browser of files calls it. */
  path: string;
  /** Go there; absent where it is not open. */
  reveal?: () => void;
  /** Emitted when somebody edits it. */
  edited?: ISignal<unknown, unknown>;
}

/** Why it is not there: the record names none, its file is out of reach or gone, or the file has no such cell. */
export type MissingReason = 'unnamed' | 'elsewhere' | 'gone' | 'no-cell';

export interface ICodeLocator {
  cell(job: IJobRecord, places: IPlaces): Promise<ICurrentCode | MissingReason>;
  file(job: IJobRecord, places: IPlaces): Promise<ICurrentCode | MissingReason>;
}

interface ISavedCell {
  id?: string;
  source: string | string[];
}

export class CodeLocator implements ICodeLocator {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly notebooks: INotebookTracker | null
  ) {}

  async cell({ spec }: IJobRecord, places: IPlaces): Promise<ICurrentCode | MissingReason> {
    const shownAs = places[spec.notebook]?.shown_as ?? null;
    const open = this._inOpenNotebook(spec, shownAs);
    if (open !== null) {
      return open;
    }
    if (!spec.notebook) {
      return 'unnamed';
    }
    const saved = await this._read(spec.notebook, places, 'notebook');
    if (typeof saved === 'string') {
      return saved;
    }
    const { cells = [] } = saved.content as { cells?: ISavedCell[] };
    const texts = cells.map(({ id, source }) => ({ id, source: [source].flat().join('') }));
    const found = findCell(texts, spec);
    return found ? { text: found.source, path: saved.path } : 'no-cell';
  }

  async file({ spec }: IJobRecord, places: IPlaces): Promise<ICurrentCode | MissingReason> {
    const saved = await this._read(spec.filename, places, 'file');
    return typeof saved === 'string' ? saved : { text: String(saved.content), path: saved.path };
  }

  private _inOpenNotebook(spec: IJobRecord['spec'], shownAs: string | null): ICurrentCode | null {
    const { contents } = this.app.serviceManager;
    const panels: NotebookPanel[] = [];
    this.notebooks?.forEach(panel => panels.push(panel));
    const isOwn = ({ context }: NotebookPanel): boolean =>
      contents.localPath(context.path) === shownAs;
    // An id is its cell's own also in a notebook that was renamed; equal code is found in the notebook itself only.
    const candidates = spec.cell_id
      ? [...panels].sort((a, b) => Number(isOwn(b)) - Number(isOwn(a)))
      : panels.filter(isOwn);
    for (const panel of candidates) {
      const cells = panel.content.widgets.map(({ model }) => ({
        id: model.id,
        source: model.sharedModel.getSource(),
        edited: model.contentChanged
      }));
      const found = findCell(cells, spec);
      if (found !== null) {
        return {
          text: found.source,
          path: contents.localPath(panel.context.path),
          edited: found.edited,
          reveal: () => this._reveal(panel, found.id)
        };
      }
    }
    return null;
  }

  /** Cells may have been moved, or the notebook closed, since the cell was found. */
  private _reveal(panel: NotebookPanel, id: string): void {
    if (panel.isDisposed) {
      return;
    }
    this.app.shell.activateById(panel.id);
    const { content } = panel;
    const index = content.widgets.findIndex(({ model }) => model.id === id);
    if (index >= 0) {
      content.activeCellIndex = index;
      void content.scrollToCell(content.widgets[index]);
    }
  }

  private async _read(
    path: string,
    places: IPlaces,
    type: 'notebook' | 'file'
  ): Promise<Contents.IModel | MissingReason> {
    const place = places[path];
    if (!place?.exists) {
      return 'gone';
    }
    if (place.shown_as === null) {
      return 'elsewhere';
    }
    try {
      return await this.app.serviceManager.contents.get(place.shown_as, { type, content: true });
    } catch {
      return 'gone';
    }
  }
}
