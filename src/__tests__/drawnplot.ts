// What draws the charts, where nothing is drawn.

/** uPlot without a canvas: what it was told, and what it would tell. */
export class DrawnPlot {
  static all: DrawnPlot[] = [];
  select = { left: 0, width: 0 };
  cursor = { left: -10 };
  width: number;
  isDestroyed = false;

  constructor(
    readonly options: {
      width: number;
      scales: { x: { range: () => number[] }; y: { range: (...all: unknown[]) => number[] } };
      series: object[];
      cursor: { bind: { dblclick: () => () => null } };
      hooks: Record<'setSelect' | 'setCursor', ((plot: DrawnPlot) => void)[]>;
    },
    public data: unknown[][],
    readonly node: HTMLElement
  ) {
    this.width = options.width;
    DrawnPlot.all.push(this);
  }

  /** As far along as there are pixels. */
  posToVal = (left: number): number => left;
  setSelect = jest.fn();
  setSize = jest.fn();
  setData(data: unknown[][]): void {
    this.data = data;
  }
  destroy(): void {
    this.isDestroyed = true;
  }
}
