// What goes wrong between this page and the server.

/** No answer that was meant: `status` is the HTTP status, 0 when the server could not be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** The sentence of whatever was thrown. */
export function sentenceOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}
