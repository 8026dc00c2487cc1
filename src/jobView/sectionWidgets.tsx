// The sections of a job's view that are drawn from its record, each while it is visible.

import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import React from 'react';

import type { Advice, Comparison, FileLocation } from '../_types';
import { errorText } from '../api/errors';
import { updateEverySecond } from '../widgets/liveWidget';
import { codeOrigin, diffCode, stripMagic, trimBlankLines } from './codeDiff';
import type { ICurrentCode } from './codeLocator';
import type { IJobViewContext } from './context';
import type { IJobRecord } from './jobSource';
import type { CodeComparison } from './sections/code';
import { Code } from './sections/code';
import { Compare, comparisonCandidates } from './sections/compare';
import { Cost } from './sections/cost';
import { Environment } from './sections/environment';
import { Events } from './sections/events';
import { Files } from './sections/files';

/** Milliseconds after the last key until an edited cell is compared again. */
const EDIT_MS = 300;

/** Renders the record when it changed, and only while it is visible. */
abstract class RecordView extends ReactWidget {
  constructor(
    protected readonly context: IJobViewContext,
    label: string
  ) {
    super();
    this.addClass('jp-smx-view-section');
    this.title.label = label;
    context.record.changed.connect(this.onRecord, this);
  }

  protected abstract draw(job: IJobRecord): JSX.Element;

  protected render(): JSX.Element {
    const { job } = this.context.record;
    return job ? this.draw(job) : <></>;
  }

  protected onRecord(): void {
    if (this.isVisible) {
      this.update();
    }
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this.onRecord();
  }

  protected openPlace(): ((place: FileLocation) => void) | undefined {
    const { commands } = this.context;
    if (!commands.hasCommand(OPEN_FILE) || !commands.hasCommand(SHOW_FILE)) {
      return undefined;
    }
    return ({ shown_as, is_folder }) => {
      const path = shown_as ?? '';
      const isText = !is_folder && !PACKED.test(path);
      void commands.execute(isText ? OPEN_FILE : SHOW_FILE, { path });
    };
  }
}

// Commands of JupyterLab.
const OPEN_FILE = 'docmanager:open';
const SHOW_FILE = 'filebrowser:go-to-path';

/** Files without a viewer in JupyterLab: the file browser selects them. */
const PACKED = /\.(tar|gz|tgz|zip|bz2|xz|zst|whl|pkl|pickle|pt|pth|bin|npy|npz|onnx|safetensors)$/i;

/** A section that shows elapsed times. */
abstract class TickingView extends RecordView {
  constructor(context: IJobViewContext, label: string) {
    super(context, label);
    updateEverySecond(this, () => context.record.isLive);
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    const { record } = this.context;
    if (record.isLive) {
      // No event announces the duration and cost of a step of a running job.
      record.refresh();
    }
  }
}

export class FilesView extends RecordView {
  constructor(context: IJobViewContext) {
    super(context, context.trans.__('Files'));
  }

  protected draw(job: IJobRecord): JSX.Element {
    const { record, source, trans } = this.context;
    return (
      <Files
        job={job}
        places={record.places}
        trans={trans}
        onOpen={this.openPlace()}
        address={source.address}
      />
    );
  }
}

export class EnvironmentView extends RecordView {
  constructor(context: IJobViewContext) {
    super(context, context.trans.__('Environment'));
  }

  protected draw(job: IJobRecord): JSX.Element {
    return <Environment job={job} trans={this.context.trans} />;
  }
}

export class EventsView extends TickingView {
  constructor(context: IJobViewContext) {
    super(context, context.trans.__('Events'));
  }

  protected draw(job: IJobRecord): JSX.Element {
    return <Events job={job} now={this.context.model.now()} trans={this.context.trans} />;
  }
}

/** Requests advice when it is shown, and again when the job is over. */
export class CostView extends TickingView {
  constructor(context: IJobViewContext) {
    super(context, context.trans.__('Cost'));
  }

  protected draw(job: IJobRecord): JSX.Element {
    const { model, trans } = this.context;
    return <Cost job={job} now={model.now()} trans={trans} advice={this._advice} />;
  }

  protected onAfterShow(msg: Message): void {
    this._asked = '';
    super.onAfterShow(msg);
  }

  protected onRecord(): void {
    super.onRecord();
    const { job } = this.context.record;
    const state = job ? `${job.attempt} ${job.summary.status}` : '';
    if (this.isVisible && state !== this._asked) {
      this._asked = state;
      void this._ask(state);
    }
  }

  private async _ask(state: string): Promise<void> {
    const found = await this.context.source.advice().catch(errorText);
    // Ignore a late answer to an earlier request.
    if (this.isDisposed || state !== this._asked) {
      return;
    }
    this._advice = found;
    this.update();
    if (typeof found === 'string') {
      // The cause of the failure may be gone at the next change of the job, so request again then.
      this._asked = '';
    }
  }

  private _asked = '';
  private _advice: Advice[] | string | null = null;
}

/** Compares with the cell when it is shown, when the record is new, and after each edit of the cell. */
export class CodeView extends RecordView {
  constructor(context: IJobViewContext) {
    super(context, context.trans.__('Code'));
  }

  dispose(): void {
    this._watch(null);
    super.dispose();
  }

  protected draw(job: IJobRecord): JSX.Element {
    const { trans, languages } = this.context;
    const open = this.openPlace();
    return (
      <Code
        name={job.name}
        ran={trimBlankLines(job.spec.source)}
        since={this._since}
        isFile={codeOrigin(job.spec) === 'file'}
        trans={trans}
        languages={languages}
        onOpen={open && (path => open({ exists: true, is_folder: false, shown_as: path }))}
      />
    );
  }

  protected onRecord(): void {
    super.onRecord();
    if (this.isVisible) {
      void this._look();
    }
  }

  protected onBeforeHide(msg: Message): void {
    this._watch(null);
    super.onBeforeHide(msg);
  }

  private async _look(): Promise<void> {
    const { record, codeLocator } = this.context;
    const { job, places } = record;
    if (job === null) {
      return;
    }
    const turn = ++this._turn;
    const kind = codeOrigin(job.spec);
    const found = kind === 'program' ? kind : await codeLocator[kind](job, places);
    const since = typeof found === 'string' ? found : await this._compared(job, found, kind);
    if (turn === this._turn && !this.isDisposed) {
      this._since = since;
      this._watch(typeof found === 'string' || !this.isVisible ? null : found);
      this.update();
    }
  }

  private async _compared(
    job: IJobRecord,
    origin: ICurrentCode,
    kind: string
  ): Promise<CodeComparison> {
    const now = kind === 'cell' ? stripMagic(origin.text) : trimBlankLines(origin.text);
    return { origin, lines: await diffCode(trimBlankLines(job.spec.source), now) };
  }

  private _watch(origin: ICurrentCode | null): void {
    clearTimeout(this._pause);
    this._watched?.edited?.disconnect(this._onEdit, this);
    this._watched = origin;
    origin?.edited?.connect(this._onEdit, this);
  }

  private _onEdit(): void {
    clearTimeout(this._pause);
    this._pause = setTimeout(() => void this._look(), EDIT_MS);
  }

  private _since: CodeComparison = 'asking';
  private _turn = 0;
  private _watched: ICurrentCode | null = null;
  private _pause: ReturnType<typeof setTimeout> | undefined;
}

/** Requests the comparison when it is shown for the first time, and when another job is chosen. */
export class CompareView extends RecordView {
  constructor(context: IJobViewContext) {
    super(context, context.trans.__('Compare'));
  }

  /** Compare with the job of an id, or with the run before (''). */
  choose(other: string): void {
    this._other = other;
    this._found = null;
    // Show the choice at once, without the result of the previous one.
    this.onRecord();
  }

  protected draw(job: IJobRecord): JSX.Element {
    const { model, trans } = this.context;
    return (
      <Compare
        name={job.name}
        others={comparisonCandidates(job.summary, model.state.jobs.values())}
        other={this._other}
        found={this._found}
        trans={trans}
        onChoose={other => this.choose(other)}
      />
    );
  }

  protected onRecord(): void {
    super.onRecord();
    if (this.isVisible) {
      void this._ask();
    }
  }

  private async _ask(): Promise<void> {
    const { record, source, model } = this.context;
    if (!this.isVisible || record.summary === null) {
      return;
    }
    const other = this._other;
    const isYounger = (model.state.jobs.get(other)?.created_at ?? 0) > record.summary.created_at;
    const [from, to] = isYounger ? [record.id, other] : [other, record.id];
    const found = await source.difference(from, to).catch(errorText);
    if (other === this._other && !this.isDisposed) {
      this._found = found;
      this.update();
    }
  }

  private _other = '';
  private _found: Comparison | string | null = null;
}
