// Why a job failed, in words: the kind of the failure, its cause, and what to do about it. Pure functions.

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Job, JobSummary } from '../_types';
import { plainText, TEXT_LIMIT } from './plainText';

/** The texts about a failed job, the same in each view. */
export interface IFailureText {
  /** The kind of the failure with its line, as `Failed: KeyError, line 14`. */
  title: string;
  /** The sentence of the exception or of the controller; empty if there is none. */
  cause: string;
  /** What to do about it; empty if that is not known. */
  cure: string;
  /** The option or the line of code in the cure; empty if it has none. */
  line: string;
}

/** What the record of a job has on its failure beside the summary. */
export type IFailureRecord = Pick<Job, 'failure_message' | 'failure_reason' | 'failure_cure'>;

type IFailedJob = Pick<JobSummary, 'failure_type' | 'failure_line' | 'message'>;

/** Characters of a kind. */
const KIND_LIMIT = 80;

/** What SageMaker's words for a failure of the user's code begin with; it says nothing of the kind. */
const USER_ERROR = 'AlgorithmError: ';

const EXIT_CODE = /^(?:ExecuteUserScriptError:\s+)?Exit ?Code:? (-?\d+)\.?\s*/;
const SIGNAL = /^The job was ended by signal (\d+) \((\w+)\)/;
const OUT_OF_MEMORY = 'OutOfMemory: ';

/** The kind of a failure: the type of an exception, `out of memory`, `exit code 3`; empty if nothing is known. */
export function failureKind(job: IFailedJob, trans: TranslationBundle): string {
  if (job.failure_type) {
    return plainText(job.failure_type, KIND_LIMIT);
  }
  if (job.message.startsWith(USER_ERROR)) {
    return userErrorKind(job.message.slice(USER_ERROR.length), trans);
  }
  const [, type = ''] = /^(\w+Error): /.exec(job.message) ?? [];
  return plainText(type, KIND_LIMIT);
}

/** The kind of a failure of the user's code without an exception that was reported. */
function userErrorKind(cause: string, trans: TranslationBundle): string {
  const code = EXIT_CODE.exec(cause);
  if (code) {
    return trans.__('exit code %1', code[1]);
  }
  const signal = SIGNAL.exec(cause);
  if (signal) {
    return trans.__('signal %1 (%2)', signal[1], signal[2]);
  }
  if (cause.startsWith(OUT_OF_MEMORY)) {
    return trans.__('out of memory');
  }
  const type = /^(\w+(?:Error|Exception)): /.exec(cause);
  return type ? plainText(type[1], KIND_LIMIT) : trans.__('error in the code');
}

/** The title of a failure, as `Failed: KeyError, line 14`. */
export function formatFailure(job: IFailedJob, trans: TranslationBundle): string {
  const kind = failureKind(job, trans);
  if (!kind) {
    return trans.__('Failed');
  }
  // A card of an older version has no line.
  return !job.failure_type || (job.failure_line ?? null) === null
    ? trans.__('Failed: %1', kind)
    : trans.__('Failed: %1, line %2', kind, job.failure_line ?? '');
}

/**
 * Why a job failed; null if it did not fail. Without `record`, the cure is part of the cause, as in the message of the
 * summary.
 */
export function describeJobFailure(
  job: JobSummary,
  record: IFailureRecord | null,
  trans: TranslationBundle
): IFailureText | null {
  if (job.status !== 'Failed') {
    return null;
  }
  const told = record ? record.failure_message || record.failure_reason : '';
  const cure = told ? plainText(record?.failure_cure ?? '', TEXT_LIMIT) : '';
  return {
    title: formatFailure(job, trans),
    cause: plainText(withoutKind(told || job.message, job.failure_type), TEXT_LIMIT),
    cure,
    line: lineOfCure(cure)
  };
}

/** The cause without the words that the title has. */
function withoutKind(message: string, type: string): string {
  let cause = message.startsWith(USER_ERROR) ? message.slice(USER_ERROR.length) : message;
  cause = cause.replace(EXIT_CODE, '');
  for (const words of [OUT_OF_MEMORY, `${type}: `]) {
    cause = cause.startsWith(words) ? cause.slice(words.length) : cause;
  }
  return cause === type ? '' : cause;
}

const OPTION =
  /\bAdd (--[a-z-]+ .+?|[a-z_]+=.+?)(?: to provide it as | instead$|\.? instead\.$|$)/m;
const IMPORT = /: (import [\w.]+(?: as \w+)?)$/m;

/** The option, or the line of code, that a cure names: what the user adds to the cell. */
export function lineOfCure(cure: string): string {
  return OPTION.exec(cure)?.[1] ?? IMPORT.exec(cure)?.[1] ?? '';
}
