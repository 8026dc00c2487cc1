// Styles of lines: a colour of the theme and a dash for each, so that they also differ without colour vision.

/** Colour and dash of one line. */
export interface ISeriesStyle {
  readonly stroke: string;
  readonly dash: number[];
}

/** Variables that differ from each other, and from the background, in every theme of JupyterLab. */
const COLOURS = [
  '--jp-brand-color1',
  '--jp-warn-color0',
  '--jp-success-color0',
  '--jp-mirror-editor-operator-color',
  '--jp-error-color1',
  '--jp-mirror-editor-comment-color'
];

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [16, 4], [5, 2, 5, 6]];

/** The colour of the n-th line of a chart, as CSS has it. */
export function seriesColour(turn: number): string {
  return `var(${COLOURS[turn % COLOURS.length]})`;
}

/** Return the dash of the n-th line; it changes each time the colours repeat. */
export function seriesDash(turn: number): number[] {
  return DASHES[(turn + Math.floor(turn / COLOURS.length)) % DASHES.length];
}

/** Dashes of the grid: in themes of high contrast, its colour alone is as bright as the lines of the data. */
export const GRID_DASH = [1, 4];

/** Colours and fonts that a canvas cannot take from a style sheet. */
export interface ICanvasTheme {
  line: (turn: number) => string;
  text: string;
  grid: string;
  font: string;
}

/** Read the colours of the theme for a canvas inside `node`; in forced-colours mode, those of the system. */
export function readCanvasTheme(node: Element): ICanvasTheme {
  const style = getComputedStyle(node);
  const font = `${style.fontSize} ${style.fontFamily}`;
  if (isForced()) {
    return { line: () => 'CanvasText', text: 'CanvasText', grid: 'GrayText', font };
  }
  const named = (name: string): string => style.getPropertyValue(name).trim() || style.color;
  return {
    line: turn => named(COLOURS[turn % COLOURS.length]),
    text: named('--jp-ui-font-color1'),
    grid: named('--jp-border-color2'),
    font
  };
}

function isForced(): boolean {
  return window.matchMedia?.('(forced-colors: active)').matches ?? false;
}

/** Return true if the system requests reduced motion. */
export function prefersReducedMotion(): boolean {
  return window.matchMedia?.('(prefers-reduced-motion: reduce)').matches ?? false;
}

/** Call `repaint` when the theme of the page or the colours of the system change. Return a function that ends this. */
export function onThemeChange(repaint: () => void): () => void {
  let frame = 0;
  // Styles are incomplete while a theme changes; in the next frame they are all applied.
  const callback = (): void => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(repaint);
  };
  const theme = new MutationObserver(callback);
  const attributeFilter = ['data-jp-theme-name', 'data-jp-theme-light'];
  theme.observe(document.body, { attributes: true, attributeFilter });
  const forced = window.matchMedia?.('(forced-colors: active)');
  forced?.addEventListener('change', callback);
  return () => {
    cancelAnimationFrame(frame);
    theme.disconnect();
    forced?.removeEventListener('change', callback);
  };
}
