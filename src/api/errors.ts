// Errors of requests to the server, and their classification.

import type { ErrorBody } from '../_types';

/** No answer that was meant: `status` is the HTTP status, 0 when the server could not be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    /** Empty where the answer was not one of the server half. */
    readonly code: string,
    message: string,
    /** Seconds that the answer asks to wait; 0 where it says nothing. */
    readonly retryAfter = 0
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/**
 * No way to the server; no server half there; nobody logged in; no right to jobs and pools; no such job; an answer that
 * is not of the server half, as a proxy gives one; or what else the server half itself says.
 */
export type FailureKind =
  'lost' | 'missing' | 'loggedOut' | 'forbidden' | 'gone' | 'broken' | 'refused';

/** Why a request failed, so that what is shown may be out of date. */
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

/** Of answers without a code of ours: a proxy or a hub asks for a login as it likes. */
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

/** Make a failure of an error body, as of the one that says why the controller could not be started. */
export function failureFromBody(body: ErrorBody): IRequestFailure {
  return { kind: 'refused', status: 503, message: errorBodyText(body), retryAfter: 0 };
}

/** Return message, rule and cure of an error of ours as one paragraph. */
export function errorBodyText(body: Partial<ErrorBody>): string {
  return [body.message, body.rule, body.cure].filter(Boolean).join(' ');
}

/** Return the message of what was thrown. */
export function errorText(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}
