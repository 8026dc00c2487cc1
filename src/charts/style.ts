// How lines look: a colour of the theme and a dash for each, so that they differ also for those who see no colours.

/** What the browser is told about the colours of a page. */
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

/** The dash of the n-th line: where colours come round again it is another one. */
export function seriesDash(turn: number): number[] {
  return DASHES[(turn + Math.floor(turn / COLOURS.length)) % DASHES.length];
}

/** Dashes of the grid: in themes of high contrast, its colour alone is as bright as the lines of the data. */
export const GRID_DASH = [1, 4];

/** What a canvas cannot take from a style sheet. */
export interface ICanvasTheme {
  line: (turn: number) => string;
  text: string;
  grid: string;
  font: string;
}

/** Read the colours of the theme for a canvas inside `node`; where colours are forced, the system's. */
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

/** Whether the system asks for less that moves. */
export function prefersReducedMotion(): boolean {
  return window.matchMedia?.('(prefers-reduced-motion: reduce)').matches ?? false;
}

/** Call back when the theme of the page or the colours of the system changed; gives a function that ends it. */
export function onThemeChange(repaint: () => void): () => void {
  let frame = 0;
  // While a theme changes nothing has a size; in the next frame all of it has come.
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
