// The mark of a cell that handed jobs in: where they are, as one sign and in words, read from the cards in its outputs.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobSummary } from '../_types';
import { formatStart, formatStep } from '../format/jobText';
import { STATUS_ICONS, WAITING_ICON } from '../format/statusIcons';
import { currentTaskStates, formatTaskCounts, mayBeStale } from '../state/arrays';
import type { IState } from '../state/state';
import { isFinal, liveJob } from '../state/state';
import { isWaiting } from '../state/waiting';
import type { ICardSnapshot } from './cardSnapshot';

/** What stands in the prompt area of a cell. */
export interface ICellMark {
  status: JobSummary['status'];
  sign: string;
  words: string;
}

/** Jobs that are named in the words of one mark. */
const NAMED = 3;

/** What is told first where a cell handed in several jobs. */
const ORDER: readonly JobSummary['status'][] = [
  'InProgress',
  'Stopping',
  'Failed',
  'Stopped',
  'Completed'
];

const STATUS: Record<string, JobSummary['status']> = {
  p: 'InProgress',
  r: 'InProgress',
  c: 'Completed',
  f: 'Failed',
  s: 'Stopped'
};

/**
 * The mark of a cell with these cards; null where nothing is known of any of them.
 */
export function createCellMark(
  cards: readonly ICardSnapshot[],
  state: IState,
  trans: TranslationBundle
): ICellMark | null {
  const marks: ICellMark[] = [];
  for (const card of cards) {
    const mark = card.array ? arrayMark(card, state, trans) : jobMark(card, state, trans);
    if (mark) {
      marks.push(mark);
    }
  }
  if (marks.length < 2) {
    return marks[0] ?? null;
  }
  marks.sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status));
  const words = marks.slice(0, NAMED).map(mark => mark.words);
  const rest = marks.length - words.length;
  const more = rest > 0 ? [trans._n('and %1 more', 'and %1 more', rest)] : [];
  return { ...marks[0], words: [...words, ...more].join('; ') };
}

function jobMark(
  { id, name, summary }: ICardSnapshot,
  state: IState,
  trans: TranslationBundle
): ICellMark | null {
  const live = liveJob(state, id);
  const job = live ?? summary;
  if (!job) {
    return null;
  }
  const isOld = !live && !isFinal(job);
  const words = [
    formatStep(job, trans),
    formatStart(job, trans),
    isOld ? trans.__('as of the last save of the notebook') : ''
  ];
  return {
    status: job.status,
    sign: signOf(job),
    words: trans.__('Job %1: %2', name, words.filter(Boolean).join(', '))
  };
}

/** A job that runs from cold has an empty circle, one on a warm pool a full one, and one that waits a small one. */
function signOf(job: JobSummary): string {
  if (isWaiting(job)) {
    return WAITING_ICON;
  }
  const isCold = job.status === 'InProgress' && job.start !== 'warm';
  return isCold ? '○' : STATUS_ICONS[job.status];
}

function arrayMark(card: ICardSnapshot, state: IState, trans: TranslationBundle): ICellMark | null {
  const { array, name } = card;
  const states = array && currentTaskStates(array, state.jobs.values());
  if (!array || !states) {
    return null;
  }
  const all = [...states].map(letter => STATUS[letter] ?? 'InProgress');
  const status = ORDER.find(one => all.includes(one)) ?? 'Completed';
  const words = [
    formatTaskCounts(states, trans),
    mayBeStale(array, state) ? trans.__('as of the last save of the notebook') : ''
  ];
  const title = array.title ? `${array.title} · ${name}` : name;
  return {
    status,
    sign: STATUS_ICONS[status],
    words: trans.__('Array %1: %2', title, words.filter(Boolean).join(', '))
  };
}

/**
 * Put a mark into a prompt area, change the one that is there, or take it away.
 */
export function drawCellMark(area: HTMLElement, mark: ICellMark | null): void {
  const known = area.querySelector<HTMLElement>(`:scope > .${MARK_CLASS}`);
  if (mark === null) {
    known?.remove();
    return;
  }
  const node = known ?? document.createElement('span');
  if (node.title === mark.words && node.dataset.status === mark.status) {
    return;
  }
  node.className = MARK_CLASS;
  node.setAttribute('role', 'img');
  node.setAttribute('aria-label', mark.words);
  node.title = mark.words;
  node.dataset.status = mark.status;
  node.textContent = mark.sign;
  if (!known) {
    area.append(node);
  }
}

const MARK_CLASS = 'jp-smx-cell-mark';
