// What is seen of a row: its characters, in the colours that Jupyter gives to those of a terminal.

import Anser from 'anser';

import type { IRow } from './rows';

/** Characters that look alike; `isHit` are those that are looked for. */
export interface ITextSpan {
  text: string;
  className: string;
  color?: string;
  background?: string;
  isHit?: boolean;
}

/** Words that are looked for. */
export interface ISearchTerm {
  text: string;
  matchCase: boolean;
}

const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const UNKNOWN = '\ufffd';

/* eslint-disable no-control-regex -- what is taken out of the text are controls */
/** Titles and links, orders that are none of colour, and the short ones (ECMA-48). */
const ORDERS =
  /\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\[[0-?]*[ -/]*(?:[@-ln-~])|\[[0-?]*[ -/]*$|[ -/]*[0-Z\\^-~]|$)/g;
const SILENT = /[\u0007\u0008]/g;
const CONTROLS = /[\u0000-\u0006\u000b-\u001a\u001c-\u001f\u007f-\u009f]/g;
/* eslint-enable no-control-regex */

const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });

/** The characters of a row, in colours, with the words that are looked for marked. */
export function parseSpans(row: IRow, words: ISearchTerm | null): ITextSpan[] {
  const text = DECODER.decode(row.bytes)
    .replace(ORDERS, '')
    .replace(SILENT, '')
    .replace(CONTROLS, UNKNOWN);
  const isPlain = row.colours === '' && !text.includes('\u001b');
  const spans = isPlain ? [{ text, className: '' }] : coloured(row.colours + text);
  return words ? marked(spans, words) : spans;
}

function coloured(text: string): ITextSpan[] {
  // Some write the numbers of one colour with colons between them.
  const usual = text.replace(/\u001b\[[\d:;]*m/g, order => order.replace(/:+/g, ';')); // eslint-disable-line no-control-regex
  return Anser.ansiToJson(usual, { use_classes: true, remove_empty: true }).map(spanOf);
}

function spanOf(part: Anser.AnserJsonEntry): ITextSpan {
  const isBold = part.decorations.includes('bold');
  const classes = DECORATIONS.filter(one => part.decorations.includes(one)).map(
    one => `ansi-${one}`
  );
  const color = colourOf(part.fg, part.fg_truecolor);
  const background = colourOf(part.bg, part.bg_truecolor);
  const named = [nameOf(part.fg, isBold), nameOf(part.bg, false)];
  ['fg', 'bg'].forEach((where, index) => {
    if (named[index]) {
      classes.push(`ansi-${named[index]}-${where}`);
    }
  });
  return { text: part.content, className: classes.join(' '), color, background };
}

const DECORATIONS: Anser.DecorationName[] = ['bold', 'dim', 'italic', 'underline', 'strikethrough'];

/** Jupyter's name of one of the sixteen colours; bold ones are the intense ones, as in a notebook. */
function nameOf(said: string | null, isBold: boolean): string {
  const [, bright, name] = /^ansi-(bright-)?(\w+)$/.exec(said ?? '') ?? [];
  return NAMES.includes(name) ? (bright || isBold ? `${name}-intense` : name) : '';
}

function colourOf(said: string | null, exact: string | null): string | undefined {
  if (said === 'ansi-truecolor' && exact) {
    return `rgb(${exact})`;
  }
  const number = Number(/^ansi-palette-(\d+)$/.exec(said ?? '')?.[1] ?? 0);
  if (number >= 232) {
    const grey = (number - 232) * 10 + 8;
    return `rgb(${grey}, ${grey}, ${grey})`;
  }
  if (number >= 16) {
    const parts = [36, 6, 1].map(step => Math.floor((number - 16) / step) % 6);
    return `rgb(${parts.map(part => (part ? 55 + part * 40 : 0)).join(', ')})`;
  }
  return undefined;
}

function marked(spans: ITextSpan[], { text, matchCase }: ISearchTerm): ITextSpan[] {
  const whole = spans.map(span => span.text).join('');
  const places = placesOf(whole, text, matchCase);
  if (places.length === 0) {
    return spans;
  }
  const borders = ([] as number[]).concat(...places.map(place => [place, place + text.length]));
  const cut: ITextSpan[] = [];
  let at = 0;
  for (const span of spans) {
    const end = at + span.text.length;
    const inside = [at, ...borders.filter(border => border > at && border < end), end];
    inside.slice(1).forEach((stop, index) => {
      const begin = inside[index];
      const isHit = places.some(place => place <= begin && begin < place + text.length);
      cut.push({ ...span, text: whole.slice(begin, stop), isHit });
    });
    at = end;
  }
  return cut;
}

function placesOf(whole: string, text: string, matchCase: boolean): number[] {
  const lower = whole.toLowerCase();
  // There are letters that are two in the other case: then places would be others.
  const isSame = matchCase || lower.length !== whole.length;
  const [where, what] = isSame ? [whole, text] : [lower, text.toLowerCase()];
  const places = [];
  for (let at = where.indexOf(what); what && at >= 0; at = where.indexOf(what, at + what.length)) {
    places.push(at);
  }
  return places;
}
