// The page of a job's charts: what can be done, one sentence, the drawings, and the same as tables.

import type { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';

import { TextButton } from '../components/textButton';
import { Legend, Select } from './controls';
import type { HistoryPoller } from './historyPoller';
import type { IPanel } from './panels';
import type { IPlotProps } from './plot';
import { describePanel } from './summary';
import { DataTables } from './tables';
import { formatTimeOffset, formatValue, formatValueTicks } from './units';
import type { IChartsSelection, IChartsViewModel, IPanelDrawing } from './viewModel';
import { axisRange } from './viewModel';

export interface IChartsDashboardProps {
  name: string;
  viewModel: IChartsViewModel | null;
  poller: HistoryPoller;
  choice: IChartsSelection;
  isPaused: boolean;
  /** The moment that the pointer is at, in seconds since the beginning. */
  moment: number | null;
  /** What draws; null until it is loaded. */
  plot: React.ComponentType<IPlotProps> | null;
  /** Why it cannot be loaded. */
  failure: string;
  group: string;
  trans: TranslationBundle;
  onPause: () => void;
  onChoose: (change: Partial<IChartsSelection>) => void;
  onAttempt: (attempt: number) => void;
  onRetry: () => void;
  onPoint: (moment: number | null) => void;
}

export function ChartsDashboard(props: IChartsDashboardProps): JSX.Element {
  const { viewModel, poller, trans } = props;
  const [isTable, setTable] = useState(false);
  const hint = useId();
  return (
    <>
      <div className="jp-smx-charts-tools" role="group" aria-label={trans.__('Charts')}>
        <Tools {...props} />
        <TextButton
          label={trans.__('Tables')}
          isPressed={isTable}
          onClick={() => setTable(!isTable)}
        />
      </div>
      <State {...props} />
      {viewModel ? <p className="jp-smx-charts-summary">{viewModel.summary}</p> : null}
      <div
        className="jp-smx-charts-area"
        role="group"
        tabIndex={0}
        aria-label={trans.__('Charts of %1', props.name)}
        aria-describedby={hint}
      >
        {viewModel?.drawings.map(drawing => (
          <Chart key={drawing.panel.key} drawing={drawing} {...props} viewModel={viewModel} />
        ))}
      </div>
      <p className="jp-smx-charts-hint" id={hint}>
        {trans.__(
          'Drag to zoom in. Double-click, 0 or Escape resets the zoom; + and − zoom in and out, ← and → move the range.'
        )}
      </p>
      {isTable && viewModel ? <DataTables viewModel={viewModel} trans={trans} /> : null}
      {poller.history.notes.map(note => (
        <p key={note} className="jp-smx-charts-note">
          {note}
        </p>
      ))}
    </>
  );
}

function Tools(props: IChartsDashboardProps): JSX.Element {
  const { viewModel, poller, choice, isPaused, trans, onPause, onChoose, onAttempt } = props;
  const { attempts } = poller.history;
  const runs = Array.from({ length: attempts }, (_, i) => String(i + 1));
  const runWords = (run: string): string => trans.__('%1 of %2', run, attempts);
  return (
    <>
      {poller.isOver || poller.isGone ? null : (
        <TextButton label={trans.__('Pause')} isPressed={isPaused} onClick={onPause} />
      )}
      <TextButton
        label={trans.__('Reset zoom')}
        isDisabled={choice.zoom === null}
        onClick={() => onChoose({ zoom: null })}
      />
      {viewModel && viewModel.hosts.length > 1 ? (
        <Select
          label={trans.__('Host')}
          value={choice.host}
          choices={[['', trans.__('all')], ...viewModel.hosts.map(host => [host, host] as const)]}
          onChange={host => onChoose({ host })}
        />
      ) : null}
      {attempts > 1 && !poller.isGone ? (
        <Select
          label={trans.__('Attempt')}
          value={String(poller.attempt)}
          choices={[['0', trans.__('newest')], ...runs.map(run => [run, runWords(run)] as const)]}
          onChange={run => onAttempt(Number(run))}
        />
      ) : null}
    </>
  );
}

/** What happens, in words that are read aloud when they change. */
function State({
  poller,
  viewModel,
  isPaused,
  failure,
  trans,
  onRetry
}: IChartsDashboardProps): JSX.Element {
  const words = stateWords(poller, viewModel !== null, isPaused, trans);
  const problem = failure ? trans.__('Cannot draw the charts: %1', failure) : '';
  const canRetry = Boolean(failure || poller.failure) && !poller.isGone;
  return (
    <div className="jp-smx-charts-state">
      <span role="status">{[problem, words].filter(Boolean).join(' ')}</span>
      {canRetry ? <TextButton label={trans.__('Try again')} onClick={onRetry} /> : null}
    </div>
  );
}

function stateWords(
  poller: HistoryPoller,
  hasSome: boolean,
  isPaused: boolean,
  trans: TranslationBundle
): string {
  if (poller.isGone) {
    return trans.__('This job was deleted. The charts show the last data received.');
  }
  if (poller.failure) {
    return trans.__('Cannot update the charts: %1', poller.failure);
  }
  if (poller.isOver) {
    return hasSome
      ? trans.__('The job has ended.')
      : trans.__('The job has ended without measurements: it was too short, or it never ran.');
  }
  if (isPaused) {
    return trans.__('Paused. The job keeps running.');
  }
  return hasSome ? trans.__('Updating live.') : trans.__('No measurements yet.');
}

/** What there is at most, beside the title. */
function mostWords({ key, most, unit }: IPanel, trans: TranslationBundle): string {
  if (key === 'cpu') {
    return most === null
      ? trans.__('(100 % = 1 core)')
      : trans.__('(total %1, 100 % = 1 core)', formatValue(most, unit, trans));
  }
  return most === null ? '' : trans.__('of %1', formatValue(most, unit, trans));
}

interface IChartProps extends Omit<IChartsDashboardProps, 'scene'> {
  drawing: IPanelDrawing;
  viewModel: IChartsViewModel;
}

function Chart(props: IChartProps): JSX.Element {
  const { drawing, viewModel, choice, moment, plot: Plot, group, trans, onChoose, onPoint } = props;
  const { panel, table, turns } = drawing;
  const { range } = viewModel;
  const toggle = (key: string): void => {
    const hidden = new Set(choice.hidden);
    if (!hidden.delete(key)) {
      hidden.add(key);
    }
    onChoose({ hidden });
  };
  return (
    <section className="jp-smx-chart">
      <h3>
        {panel.title}
        <span> {mostWords(panel, trans)}</span>
      </h3>
      <div role="img" aria-label={describePanel(panel, range, trans)}>
        {Plot ? (
          <Plot
            table={table}
            turns={turns}
            {...axisRange(range)}
            isFromZero={panel.isFromZero}
            group={group}
            timeLabel={trans.__('time since start')}
            unit={panel.unit}
            valueMarks={marks => formatValueTicks(marks, panel.unit, trans)}
            timeWords={seconds => formatTimeOffset(seconds, trans)}
            onZoom={(from, to) =>
              onChoose({ zoom: { from: from + range.begin, to: to + range.begin } })
            }
            onWhole={() => onChoose({ zoom: null })}
            onPoint={onPoint}
          />
        ) : null}
      </div>
      <Legend
        panel={panel}
        hidden={choice.hidden}
        moment={moment === null ? null : moment + range.begin}
        to={range.to}
        trans={trans}
        onToggle={toggle}
      />
    </section>
  );
}
