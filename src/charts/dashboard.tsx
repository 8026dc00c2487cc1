// The page of a job's charts: what can be done, one sentence, the drawings, and the same as tables.

import type { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';

import { Button } from '../components/textButton';
import { Legend, Select, Tables } from './controls';
import type { Feed } from './historyPoller';
import type { IPanel } from './panels';
import type { IPlotProps } from './plot';
import { panelWords } from './summary';
import { timeWords, valueMarks, valueWords } from './units';
import type { IChoice, IDrawing, IScene } from './viewModel';
import { axisOf } from './viewModel';

export interface IChartsPageProps {
  name: string;
  scene: IScene | null;
  feed: Feed;
  choice: IChoice;
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
  onChoose: (change: Partial<IChoice>) => void;
  onAttempt: (attempt: number) => void;
  onRetry: () => void;
  onPoint: (moment: number | null) => void;
}

export function ChartsPage(props: IChartsPageProps): JSX.Element {
  const { scene, feed, trans } = props;
  const [isTable, setTable] = useState(false);
  const hint = useId();
  return (
    <>
      <div className="jp-smx-charts-tools" role="group" aria-label={trans.__('Charts')}>
        <Tools {...props} />
        <Button label={trans.__('Tables')} isPressed={isTable} onClick={() => setTable(!isTable)} />
      </div>
      <State {...props} />
      {scene ? <p className="jp-smx-charts-summary">{scene.summary}</p> : null}
      <div
        className="jp-smx-charts-area"
        role="group"
        tabIndex={0}
        aria-label={trans.__('Charts of %1', props.name)}
        aria-describedby={hint}
      >
        {scene?.drawings.map(drawing => (
          <Chart key={drawing.panel.key} drawing={drawing} {...props} scene={scene} />
        ))}
      </div>
      <p className="jp-smx-charts-hint" id={hint}>
        {trans.__(
          'Drag to see a part of the time. Double click, 0 or Escape shows all of it; + and − make it shorter and longer, ← and → move it.'
        )}
      </p>
      {isTable && scene ? <Tables scene={scene} trans={trans} /> : null}
      {feed.history.notes.map(note => (
        <p key={note} className="jp-smx-charts-note">
          {note}
        </p>
      ))}
    </>
  );
}

function Tools(props: IChartsPageProps): JSX.Element {
  const { scene, feed, choice, isPaused, trans, onPause, onChoose, onAttempt } = props;
  const { attempts } = feed.history;
  const runs = Array.from({ length: attempts }, (_, i) => String(i + 1));
  const runWords = (run: string): string => trans.__('%1 of %2', run, attempts);
  return (
    <>
      {feed.isOver || feed.isGone ? null : (
        <Button label={trans.__('Pause')} isPressed={isPaused} onClick={onPause} />
      )}
      <Button
        label={trans.__('Reset zoom')}
        isDisabled={choice.zoom === null}
        onClick={() => onChoose({ zoom: null })}
      />
      {scene && scene.hosts.length > 1 ? (
        <Select
          label={trans.__('Host')}
          value={choice.host}
          choices={[['', trans.__('all')], ...scene.hosts.map(host => [host, host] as const)]}
          onChange={host => onChoose({ host })}
        />
      ) : null}
      {attempts > 1 && !feed.isGone ? (
        <Select
          label={trans.__('Run')}
          value={String(feed.attempt)}
          choices={[['0', trans.__('newest')], ...runs.map(run => [run, runWords(run)] as const)]}
          onChange={run => onAttempt(Number(run))}
        />
      ) : null}
    </>
  );
}

/** What happens, in words that are read aloud when they change. */
function State({ feed, scene, isPaused, failure, trans, onRetry }: IChartsPageProps): JSX.Element {
  const words = stateWords(feed, scene !== null, isPaused, trans);
  const problem = failure ? trans.__('The charts cannot be drawn: %1', failure) : '';
  const canRetry = Boolean(failure || feed.failure) && !feed.isGone;
  return (
    <div className="jp-smx-charts-state">
      <span role="status">{[problem, words].filter(Boolean).join(' ')}</span>
      {canRetry ? <Button label={trans.__('Try again')} onClick={onRetry} /> : null}
    </div>
  );
}

function stateWords(
  feed: Feed,
  hasSome: boolean,
  isPaused: boolean,
  trans: TranslationBundle
): string {
  if (feed.isGone) {
    return trans.__('This job was deleted. What is drawn is what was known before.');
  }
  if (feed.failure) {
    return trans.__('Nothing new can be read: %1', feed.failure);
  }
  if (feed.isOver) {
    return hasSome
      ? trans.__('The job has ended.')
      : trans.__('The job has ended, and nothing was measured: it was too short, or it never ran.');
  }
  if (isPaused) {
    return trans.__('Paused. The job goes on.');
  }
  return hasSome ? trans.__('Follows the job.') : trans.__('Nothing was measured so far.');
}

/** What there is at most, beside the title. */
function mostWords({ key, most, unit }: IPanel, trans: TranslationBundle): string {
  if (key === 'cpu') {
    return most === null
      ? trans.__('100 % is one core')
      : trans.__('of %1, 100 % is one core', valueWords(most, unit, trans));
  }
  return most === null ? '' : trans.__('of %1', valueWords(most, unit, trans));
}

interface IChartProps extends Omit<IChartsPageProps, 'scene'> {
  drawing: IDrawing;
  scene: IScene;
}

function Chart(props: IChartProps): JSX.Element {
  const { drawing, scene, choice, moment, plot: Plot, group, trans, onChoose, onPoint } = props;
  const { panel, table, turns } = drawing;
  const { sight } = scene;
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
      <div role="img" aria-label={panelWords(panel, sight, trans)}>
        {Plot ? (
          <Plot
            table={table}
            turns={turns}
            {...axisOf(sight)}
            isFromZero={panel.isFromZero}
            group={group}
            timeLabel={trans.__('time since the start')}
            valueMarks={marks => valueMarks(marks, panel.unit, trans)}
            timeWords={seconds => timeWords(seconds, trans)}
            onZoom={(from, to) =>
              onChoose({ zoom: { from: from + sight.begin, to: to + sight.begin } })
            }
            onWhole={() => onChoose({ zoom: null })}
            onPoint={onPoint}
          />
        ) : null}
      </div>
      <Legend
        panel={panel}
        hidden={choice.hidden}
        moment={moment === null ? null : moment + sight.begin}
        to={sight.to}
        trans={trans}
        onToggle={toggle}
      />
    </section>
  );
}
