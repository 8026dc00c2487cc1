// Errors of requests to the server, and their classification.

import type { ErrorBody } from '../_types';

/** A request without a usable answer: `status` is the HTTP status, 0 if the server could not be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    /** Empty if the answer did not come from the server half. */
    readonly code: string,
    message: string,
    /** Seconds to wait before a retry, from the answer; 0 if the answer has none. */
    readonly retryAfter = 0
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/**
 * The server cannot be reached; it has no server half; the user is logged out; the user may not use jobs and pools; the
 * job does not exist; the answer came from something else, such as a proxy; any other error of the server half.
 */
export type FailureKind =
  'lost' | 'missing' | 'loggedOut' | 'forbidden' | 'gone' | 'broken' | 'refused';

/** Why a request failed; what is shown may therefore be out of date. */
export interface IRequestFailure {
  readonly kind: FailureKind;
  readonly status: number;
  readonly message: string;
  /** Seconds that the server asks to wait. */
  readonly retryAfter: number;
}

const BY_CODE: Partial<Record<string, FailureKind>> = {
  UnrecognizedClientException: 'loggedOut',
  AccessDeniedException: 'forbidden',
  ResourceNotFound: 'gone'
};

/** For answers without an error code of the server half: proxies and hubs request a login with different statuses. */
const BY_STATUS: Partial<Record<number, FailureKind>> = {
  0: 'lost',
  401: 'loggedOut',
  403: 'loggedOut',
  404: 'missing'
};

const METHOD_NOT_ALLOWED = 405;
const NOT_IMPLEMENTED = 501;
const FORBIDDEN = 403;

/** Statuses of a proxy that waited too long for the answer of the server; 524 is Cloudflare's. */
const PROXY_TIMEOUTS: ReadonlySet<number> = new Set([408, 504, 524]);
/** Apache's status for a timeout, and the status of all proxies for a server that they cannot reach. */
const BAD_GATEWAY = 502;

/** Return true if something on the way refused the method of a request, so that the server never received it. */
export function isMethodBlocked(reason: unknown): boolean {
  if (!(reason instanceof ApiError)) {
    return false;
  }
  const { status, code } = reason;
  const isRefused = status === METHOD_NOT_ALLOWED || status === NOT_IMPLEMENTED;
  // The server half refuses with a code; a 403 without one is the page of a proxy.
  return code === '' && (isRefused || status === FORBIDDEN);
}

/** Return true if a proxy, not the server half, ended a request because the answer took too long. */
export function isProxyTimeout(reason: unknown): boolean {
  return reason instanceof ApiError && reason.code === '' && PROXY_TIMEOUTS.has(reason.status);
}

/** Return true if the server may have received a request whose answer did not arrive. */
export function isResponseLost(reason: unknown): boolean {
  if (isProxyTimeout(reason)) {
    return true;
  }
  const isAnswer = reason instanceof ApiError;
  return isAnswer && (reason.status === 0 || (reason.status === BAD_GATEWAY && reason.code === ''));
}

/**
 * Classify what a request threw.
 */
export function classifyFailure(reason: unknown): IRequestFailure {
  const message = errorText(reason);
  if (!(reason instanceof ApiError)) {
    return { kind: 'broken', status: 0, message, retryAfter: 0 };
  }
  const { status, code, retryAfter } = reason;
  const isOurs = code !== '' && status !== 0;
  const kind = isOurs ? (BY_CODE[code] ?? 'refused') : (BY_STATUS[status] ?? 'broken');
  return { kind, status, message, retryAfter };
}

/** Make a failure of an error body, such as the one that says why the controller could not be started. */
export function failureFromBody(body: ErrorBody): IRequestFailure {
  return { kind: 'refused', status: 503, message: errorBodyText(body), retryAfter: 0 };
}

/** Return message, rule and cure of an error of the server half as one paragraph. */
export function errorBodyText(body: Partial<ErrorBody>): string {
  return [body.message, body.rule, body.cure].filter(Boolean).join(' ');
}

/** Return the message of what was thrown. */
export function errorText(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}
