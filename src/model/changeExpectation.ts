// Whether changes of jobs are due, so that the model polls more often.

import { hasUnfinishedJobs, type IState } from '../state/state';

/** Seconds after an action or a new card in which changes are due. */
const DURATION = 60;

export class ChangeExpectation {
  /** `clock` returns seconds. */
  constructor(private readonly clock: () => number) {}

  /** Return true if a user just did something, or jobs go on and no event has come to say so. */
  isDue(state: IState): boolean {
    const isSilent = !this._hasEvents && state.connectionStatus === 'ready';
    return this.clock() < this._until || (isSilent && hasUnfinishedJobs(state));
  }

  /** Note that an event came, so the websocket works and unfinished jobs need no poll. */
  noteEvent(): void {
    this._hasEvents = true;
  }

  /** Begin a time in which changes are due. */
  begin(): void {
    this._until = this.clock() + DURATION;
  }

  /**
   * Begin such a time for a job or an array; false if that id was given before. A saved notebook may have cards of jobs
   * that were deleted, so each id counts once.
   */
  beginFor(id: string): boolean {
    const isNew = !this._ids.has(id);
    if (isNew) {
      this._ids.add(id);
      this.begin();
    }
    return isNew;
  }

  private _until = 0;
  private _hasEvents = false;
  private readonly _ids = new Set<string>();
}
