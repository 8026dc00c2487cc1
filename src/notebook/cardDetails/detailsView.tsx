// The open part of a card: why the start was warm or cold, its stages, figures over time, the end of the log.

import type { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';

import type { SeriesKind } from '../../charts/history';
import type { IPanel } from '../../charts/panels';
import { buildPanels } from '../../charts/panels';
import { formatValue } from '../../charts/units';
import { TextButton } from '../../components/textButton';
import { formatMoney } from '../../format/numbers';
import { describeRecordError } from '../../jobView/recordError';
import { formatLogError } from '../../log/logError';
import { RowText } from '../../log/rowText';
import type { IState } from '../../state/state';
import { isFinal } from '../../state/state';
import { HEIGHT, svgPath, WIDTH } from './curvePath';
import type { CardDetailsModel } from './detailsModel';
import { formatStage, timedStages } from './startStages';

/** Maximum lines of the log, and maximum charts. */
const [LINES, CURVES] = [5, 6];

/** The figures of a card; the charts of the job have the others. */
const SHOWN: ReadonlySet<SeriesKind> = new Set<SeriesKind>([
  'metric',
  'cpu',
  'memory',
  'gpu',
  'gpu-memory'
]);

interface ICardDetailsViewProps {
  detail: CardDetailsModel;
  connectionStatus: IState['connectionStatus'];
  trans: TranslationBundle;
  /** Show the job's files; absent if that is not possible, or if there are none yet. */
  onFiles?: () => void;
}

export function CardDetailsView(props: ICardDetailsViewProps): JSX.Element {
  const { trans, onFiles } = props;
  return (
    <div className="jp-smx-card-more">
      <RecordErrorNotice {...props} />
      <Start {...props} />
      <Curves {...props} />
      <Tail {...props} />
      {onFiles ? <TextButton label={trans.__('Outputs')} onClick={onFiles} /> : null}
    </div>
  );
}

function RecordErrorNotice({
  detail,
  connectionStatus,
  trans
}: ICardDetailsViewProps): JSX.Element | null {
  const { failure, job } = detail.record;
  if (failure === null) {
    return job === null ? <p role="status">{trans.__('Loading the job…')}</p> : null;
  }
  const { message } = describeRecordError(failure, connectionStatus, job !== null, trans);
  return <p role="status">{message || failure.message}</p>;
}

/** Warm or cold and why, the cost so far, and the durations of the stages before the first line. */
function Start({ detail, trans }: ICardDetailsViewProps): JSX.Element | null {
  const { job, summary } = detail.record;
  if (job === null) {
    return null;
  }
  const stages = timedStages(job.timings);
  const total = stages.reduce((sum, { seconds }) => sum + seconds, 0);
  const words = stages.map(one => formatStage(one, trans)).join(' · ');
  const sum = summary?.cost ? formatMoney(summary.cost) : '';
  const cost = sum && summary && !isFinal(summary) ? trans.__('%1 so far', sum) : sum;
  return (
    <>
      <p>{[job.why?.sentence ?? '', cost].filter(Boolean).join(' · ')}</p>
      {stages.length > 0 ? (
        <div className="jp-smx-way">
          <div className="jp-smx-way-bar" aria-hidden="true">
            {stages.map(({ stage, seconds }) => (
              // If all shares together are below 1, they would not fill the bar.
              <span
                key={stage}
                data-stage={stage}
                style={{ flexGrow: total > 0 ? seconds / total : 1 }}
              />
            ))}
          </div>
          <span>{words}</span>
        </div>
      ) : null}
    </>
  );
}

function Curves({ detail, trans }: ICardDetailsViewProps): JSX.Element | null {
  const lines = detail.historyPoller.history.lines.filter(line => SHOWN.has(line.kind));
  const panels = buildPanels(lines, trans).slice(0, CURVES);
  return panels.length > 0 ? (
    <ul className="jp-smx-curves" aria-label={trans.__('Metrics over time')}>
      {panels.map(panel => (
        <Curve key={panel.key} panel={panel} trans={trans} />
      ))}
    </ul>
  ) : null;
}

/** One line for each figure of a chart, with the newest value beside it. */
function Curve({ panel, trans }: { panel: IPanel; trans: TranslationBundle }): JSX.Element {
  const [first, ...others] = panel.lines;
  const newest = [...first.line.values].reverse().find(value => value !== null) ?? null;
  const value = newest === null ? trans.__('nan') : formatValue(newest, panel.unit, trans);
  const more = others.length > 0 ? trans._n('and %1 more', 'and %1 more', others.length) : '';
  const name = others.length > 0 ? trans.__('%1, %2', panel.title, first.label) : panel.title;
  return (
    <li>
      <svg
        className="jp-smx-curve"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        aria-hidden="true"
        focusable="false"
      >
        <path d={svgPath(first.line, panel.isFromZero)} />
      </svg>
      {[trans.__('%1 %2', name, value), more].filter(Boolean).join(' ')}
    </li>
  );
}

function Tail({ detail, trans }: ICardDetailsViewProps): JSX.Element | null {
  const { problem, window, isEnded, latest } = detail.reader;
  const id = useId();
  const rows = window.rows.slice(-LINES);
  if (problem && rows.length === 0) {
    return <p>{formatLogError(problem, trans)}</p>;
  }
  if (rows.length === 0) {
    const words = isEnded ? trans.__('No output.') : trans.__('No output yet.');
    return latest ? <p>{words}</p> : null;
  }
  return (
    <>
      <span id={id} className="jp-smx-spoken">
        {trans.__('Last lines of the log')}
      </span>
      <pre
        className="jp-smx-tail jp-RenderedText"
        role="log"
        aria-live="off"
        aria-labelledby={id}
        // It scrolls sideways; the tab index lets keyboard users do that, too.
        tabIndex={0}
      >
        {rows.map(row => (
          <div key={row.start}>
            <RowText row={row} words={null} />
          </div>
        ))}
      </pre>
    </>
  );
}
