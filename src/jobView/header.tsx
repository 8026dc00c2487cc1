// The head of a job's view: its name, state and place, its buttons, and its problems.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import React from 'react';

import type { JobSummary, PoolSummary } from '../_types';
import { CommandIDs } from '../commands/commandIds';
import { commandRunner } from '../commands/commandRunner';
import { ConnectionNotice } from '../components/connectionNotice';
import { FailureNotice } from '../components/failureNotice';
import { InlineList } from '../components/inlineText';
import { JobExpectedDuration, JobMetrics, JobProgress } from '../components/jobProgress';
import { JobDuration, StatusIcon } from '../components/jobStatus';
import { TextButton } from '../components/textButton';
import {
  formatAllocation,
  formatEngine,
  formatImage,
  formatPreparation,
  formatRemark,
  formatStart,
  formatStep
} from '../format/jobText';
import { describeJobFailure } from '../format/failureText';
import type { IFailureText } from '../format/failureText';
import { formatMoney } from '../format/numbers';
import { NAME_LIMIT, plainText } from '../format/plainText';
import { formatExpectedStart } from '../format/progressText';
import { isReachable, shownTime } from '../state/connectionState';
import { canBeInterrupted, EMPTY_STATE, isFinal, jobHasHosts } from '../state/state';
import { LiveWidget } from '../widgets/liveWidget';
import type { IJobViewContext } from './context';
import { describeRecordError, recordErrorKind } from './recordError';

export class HeaderView extends LiveWidget {
  constructor(private readonly context: IJobViewContext) {
    super(context.model);
    this.addClass('jp-smx-view-head');
    context.record.changed.connect(this.update, this);
  }

  protected isTicking(): boolean {
    return this.context.record.isLive;
  }

  protected onUpdateRequest(msg: Message): void {
    // Many jobs change while this tab is hidden; it is drawn again when it is shown.
    if (this.isVisible) {
      super.onUpdateRequest(msg);
    }
  }

  protected render(): JSX.Element {
    const { record, trans, name } = this.context;
    const job = record.summary;
    return (
      <>
        <div className="jp-smx-view-title">
          {job ? <StatusIcon job={job} /> : null}
          <h2>
            <bdi>{plainText(job?.name ?? name, NAME_LIMIT)}</bdi>
          </h2>
          {job && this._hasButtons() ? this._buttons(job) : null}
        </div>
        <RecordErrorNotice {...this.context} />
        {job ? (
          <State
            job={job}
            pool={this.model.state.pools.get(job.pool)}
            failure={describeJobFailure(job, record.job, trans)}
            now={shownTime(this.model.state, this.model.now())}
            trans={trans}
          />
        ) : (
          <p role="status">{record.failure === null ? trans.__('Loading the job…') : ''}</p>
        )}
      </>
    );
  }

  /** A job that is gone has no buttons; if the server does not answer, they are there and disabled. */
  private _hasButtons(): boolean {
    const { failure } = this.context.record;
    const kind = failure && recordErrorKind(failure, this.model.state.connectionStatus);
    return kind === null || kind === 'failing' || kind === 'loggedOut';
  }

  private _buttons(job: JobSummary): JSX.Element {
    const { commands, record, trans } = this.context;
    const shell: Record<string, string> = jobHasHosts(job)
      ? { [CommandIDs.openShell]: trans.__('Shell') }
      : {};
    const labels: Record<string, string> = isFinal(job)
      ? {
          ...shell,
          [CommandIDs.rerunJob]: trans.__('Rerun'),
          [CommandIDs.compareJobs]: trans.__('Compare…'),
          [CommandIDs.deleteJob]: trans.__('Delete')
        }
      : {
          [CommandIDs.stopJob]: trans.__('Stop'),
          ...shell,
          ...(canBeInterrupted(job) ? { [CommandIDs.interruptJob]: trans.__('Interrupt…') } : {}),
          [CommandIDs.compareJobs]: trans.__('Compare…')
        };
    const isOffline = record.failure !== null || !isReachable(this.model.state);
    return (
      <span className="jp-smx-acts">
        {Object.entries(labels)
          .filter(([id]) => commands.hasCommand(id))
          .map(([id, label]) => {
            const act = (): Promise<unknown> =>
              commands.execute(id, { id: job.id, name: job.name });
            const isStopping = id === CommandIDs.stopJob && job.status === 'Stopping';
            return (
              <TextButton
                key={id}
                label={label}
                isDisabled={isOffline || isStopping}
                // No event announces the deletion of a job that is not listed, so read it again.
                onClick={() => void act().then(() => record.refresh())}
              />
            );
          })}
      </span>
    );
  }
}

interface IStateProps {
  job: JobSummary;
  /** Its hosts, while they are there. */
  pool?: PoolSummary;
  /** Null if it did not fail. */
  failure: IFailureText | null;
  now: number;
  trans: TranslationBundle;
}

function State({ job, pool, failure, now, trans }: IStateProps): JSX.Element {
  const says = formatPreparation(job, trans) || formatRemark(job, trans);
  return (
    <>
      <div className="jp-smx-view-state">
        <span role="status">{formatStep(job, trans)}</span>
        <span className="jp-smx-times">
          <JobDuration job={job} now={now} trans={trans} />
          <JobExpectedDuration job={job} trans={trans} />
        </span>
        <InlineList
          words={[
            formatExpectedStart(job, now, trans),
            job.instances,
            formatEngine(job.engine, pool?.machines),
            isFinal(job) ? '' : formatAllocation(pool, now, trans),
            formatImage(job.image),
            formatStart(job, trans),
            job.cost ? formatMoney(job.cost) : '',
            job.array?.label ?? ''
          ]}
        />
      </div>
      {failure ? <FailureNotice failure={failure} hasTitle={false} trans={trans} /> : null}
      {says ? <p className="jp-smx-says">{says}</p> : null}
      <JobProgress job={job} trans={trans} />
      <JobMetrics job={job} trans={trans} />
    </>
  );
}

function RecordErrorNotice(context: IJobViewContext): JSX.Element | null {
  const { record, model, commands, trans, close } = context;
  if (record.failure === null) {
    return null;
  }
  const { connectionStatus } = model.state;
  const { kind, message } = describeRecordError(
    record.failure,
    connectionStatus,
    record.job !== null,
    trans
  );
  const again = (): void => {
    record.refresh();
    void model.refresh();
  };
  if (kind === 'missing') {
    const state = { ...EMPTY_STATE, connectionStatus: kind };
    return <ConnectionNotice state={state} now={model.now()} trans={trans} onRefresh={again} />;
  }
  const wake = commandRunner(commands, CommandIDs.wake);
  const acts: Record<typeof kind, [string, (() => void) | undefined]> = {
    gone: [trans.__('Close this tab'), close],
    asleep: [trans.__('Start the controller'), wake && (() => wake())],
    loggedOut: [trans.__('Try again'), again],
    forbidden: [trans.__('Try again'), again],
    failing: [trans.__('Try again'), again]
  };
  const [label, act] = acts[kind];
  return (
    <div className="jp-smx-notice" role="alert">
      <p>{message}</p>
      {act ? <TextButton label={label} onClick={act} /> : null}
    </div>
  );
}
