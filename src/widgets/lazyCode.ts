// Code with a file of its own that the page loads with its first use, not when Lab starts.

/** Loads it once; after a failure, the next request loads again. */
export class LazyCode<T> {
  /** `load` imports the file. */
  constructor(private readonly load: () => Promise<T>) {}

  /** What was loaded; null before. */
  get code(): T | null {
    return this._code;
  }

  async request(): Promise<T> {
    this._request ??= this.load();
    try {
      this._code = await this._request;
      return this._code;
    } catch (reason) {
      this._request = null;
      throw reason;
    }
  }

  private _code: T | null = null;
  private _request: Promise<T> | null = null;
}
