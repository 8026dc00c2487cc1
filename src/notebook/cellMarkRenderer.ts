// Draws the status marks of the cells of one notebook, in the prompt of each cell whose outputs have cards.

import type { Cell, CodeCell, ICodeCellModel } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import type { IJobsModel } from '../tokens';
import { CARD_MIME_TYPE } from './cardMimeType';
import type { ICardSnapshot } from './cardSnapshot';
import { parseCard } from './cardSnapshot';
import { createCellMark, drawCellMark } from './cellMark';

/** What is used of Lab's notebook. */
export type IMarkedNotebook = Pick<
  Notebook,
  'model' | 'modelChanged' | 'cellInViewportChanged' | 'widgets'
>;

/**
 * Draws at most once a frame, and only cells whose outputs hold cards.
 */
export class CellMarkRenderer implements IDisposable {
  constructor(
    private readonly notebook: IMarkedNotebook,
    private readonly jobs: IJobsModel,
    private readonly trans: TranslationBundle
  ) {
    notebook.modelChanged.connect(this._onModel, this);
    notebook.cellInViewportChanged.connect(this._later, this);
    jobs.changed.connect(this._later, this);
    this._onModel();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      cancelAnimationFrame(this._frame);
      Signal.clearData(this);
      this._cards.forEach((_, cell) => this._draw(cell, []));
      this._cards.clear();
    }
  }

  private _onModel(): void {
    this.notebook.model?.cells.changed.connect(this._onCells, this);
    this._onCells();
  }

  private _onCells(): void {
    this._isNew = true;
    this._later();
  }

  private _later(): void {
    cancelAnimationFrame(this._frame);
    this._frame = requestAnimationFrame(() => this._work());
  }

  private _work(): void {
    if (this._isNew) {
      this._isNew = false;
      this._readAll();
    }
    for (const [cell, cards] of this._cards) {
      if (cell.isDisposed) {
        this._cards.delete(cell);
      } else {
        this._draw(cell, cards);
      }
    }
  }

  private _readAll(): void {
    for (const cell of this.notebook.widgets) {
      if (isCodeCell(cell) && !this._known.has(cell)) {
        this._known.add(cell);
        const read = (): void => this._read(cell);
        cell.model.outputs.changed.connect(read, this);
        read();
      }
    }
  }

  private _read(cell: CodeCell): void {
    const cards = cardsOf(cell.model);
    if (cards.length > 0 || this._cards.has(cell)) {
      this._cards.set(cell, cards);
      this._later();
    }
  }

  private _draw(cell: CodeCell, cards: readonly ICardSnapshot[]): void {
    // A cell that was never in sight has no input area yet; it says so when it has one.
    const area = cell.isDisposed ? null : cell.inputArea?.node;
    if (area) {
      drawCellMark(area, createCellMark(cards, this.jobs.state, this.trans));
    }
  }

  private readonly _cards = new Map<CodeCell, ICardSnapshot[]>();
  private readonly _known = new WeakSet<Cell>();
  private _frame = 0;
  private _isNew = false;
  private _isDisposed = false;
}

function isCodeCell(cell: Cell): cell is CodeCell {
  return cell.model.type === 'code';
}

function cardsOf({ outputs }: ICodeCellModel): ICardSnapshot[] {
  const cards: ICardSnapshot[] = [];
  for (let index = 0; index < outputs.length; index++) {
    const card = parseCard(outputs.get(index).data[CARD_MIME_TYPE]);
    if (card) {
      cards.push(card);
    }
  }
  return cards;
}
