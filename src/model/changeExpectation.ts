// Whether changes of jobs are due because of what a user just did, so that the model polls more often.

/** Seconds after an action or a new card in which changes are due. */
const DURATION = 60;

export class ChangeExpectation {
  /** `clock` returns seconds. */
  constructor(private readonly clock: () => number) {}

  get isDue(): boolean {
    return this.clock() < this._until;
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
  private readonly _ids = new Set<string>();
}
