import { ReactWidget } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import React from 'react';

import type { IPlotProps } from '../../charts/plot';
import { Plot } from '../../charts/plot';
import { waitForRender } from '../fixtures/fakeModel';
import type * as Drawn from '../fixtures/fakePlot';
import { FakePlot } from '../fixtures/fakePlot';

jest.mock('uplot', () => ({
  __esModule: true,
  default: jest.requireActual<typeof Drawn>('../fixtures/fakePlot').FakePlot
}));
window.ResizeObserver = class {
  observe = jest.fn();
  unobserve = jest.fn();
  disconnect = jest.fn();
};

describe('the grid of a chart', () => {
  it('is dotted and the first line is not, since themes of high contrast give both the same colour', async () => {
    const props: IPlotProps = {
      table: [
        [0, 1],
        [1, 2]
      ],
      turns: [0],
      from: 0,
      to: 1,
      isFromZero: true,
      unit: 'number',
      group: 'one',
      timeLabel: 'seconds',
      valueMarks: marks => marks.map(String),
      timeWords: String,
      onZoom: () => undefined,
      onWhole: () => undefined,
      onPoint: () => undefined
    };
    const widget = ReactWidget.create(<Plot {...props} />);
    Widget.attach(widget, document.body);
    await waitForRender();
    const { axes, series } = FakePlot.all[0].options;
    expect(axes.map(({ grid }) => grid.dash)).toEqual([
      [1, 4],
      [1, 4]
    ]);
    expect(series[1]).toMatchObject({ dash: [] });
    widget.dispose();
  });
});
