// The server extension's routes, typed; nothing is remembered here.

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type {
  ArraySummary,
  Changes,
  ErrorBody,
  Job,
  JobSummary,
  PoolSummary,
  ShellCommand,
  Status
} from '../_types';
import { ApiError, errorBodyText, errorText, isMethodBlocked } from './errors';
import { type Action, methodOf, pathOf, postPathOf } from './routes';

const ROOT = 'jupyter-smx';
const NO_CONTENT = 204;
const NEWLINE = 10;
const UNAUTHORIZED = 401;

/** What the server says of itself: what the headers of each answer have, for proxies that remove them, and more. */
interface IServerInfo {
  now?: number;
  server_version?: string;
  /** Where the records are, while they end with the server's machine; empty otherwise. */
  records_note?: string;
  /** The ID of its records; empty where there are none. Older servers have no such field. */
  records_id?: string;
  /** The address of the front for clients of AWS; empty where none runs. */
  aws_url?: string;
}

/** Whether a controller runs, and where it is in the sequence of changes, or why none could be started. */
export type ControllerInfo = IServerInfo &
  ({ running: true; version: string; seq: number } | { running: false; problem?: ErrorBody });

/** A body, and the server's clock (seconds since the epoch) when it answered, null if it did not say. */
export interface IResponse<T> {
  body: T;
  now: number | null;
  /** Of the server half; absent where it did not say. */
  version?: string;
  /** The address of the front for clients of AWS, empty where none runs; absent where it did not say. */
  awsUrl?: string;
}

/** What is used of the answer that hands a job in. */
export type SubmittedJob = Pick<Job, 'id' | 'name'>;

/** Recognizes what the server half says of some bytes; null for anything else. */
export interface IHeadReader<T> {
  ofLine(line: object): T | null;
  ofHeaders(headers: Headers): T | null;
}

/** Whose hosts a shell opens on. */
export type ShellTarget = 'jobs' | 'pools';

/** What a request has besides its action. */
interface IRequestParts {
  id?: string;
  query?: Readonly<Record<string, string | number>>;
  body?: Readonly<Record<string, string | number>>;
}

export interface IJobQuery {
  before?: string;
  status?: Status;
}

export class ApiClient {
  constructor(private readonly settings: ServerConnection.ISettings) {}

  async controller(): Promise<IResponse<ControllerInfo>> {
    return withServerInfo(await this.request('get_controller_state'));
  }

  async startController(): Promise<IResponse<ControllerInfo>> {
    return withServerInfo(await this.request('start_controller'));
  }

  /** One page, newest first: of all jobs or of those with a status, from the newest or `before` a job. */
  jobs(limit: number, which: IJobQuery = {}): Promise<IResponse<{ jobs: JobSummary[] }>> {
    return this.request('list_jobs', { query: { limit, ...which } });
  }

  async deleteJob(id: string): Promise<void> {
    await this.request('delete_job', { id });
  }

  /** Run a job once more as the job `newId`; said twice, it is done once. */
  rerunJob(id: string, newId: string): Promise<IResponse<SubmittedJob>> {
    return this.request('rerun_job', { id, body: { id: newId } });
  }

  /** The newest arrays, with how many of their tasks are where. */
  arrays(limit: number): Promise<IResponse<{ arrays: ArraySummary[] }>> {
    return this.request('list_arrays', { query: { limit } });
  }

  array(id: string): Promise<IResponse<ArraySummary>> {
    return this.request('get_array', { id, query: { tasks: 0 } });
  }

  stopArray(id: string): Promise<IResponse<unknown>> {
    return this.request('stop_array', { id });
  }

  pools(): Promise<IResponse<{ pools: PoolSummary[] }>> {
    return this.request('list_pools');
  }

  changes(since: number): Promise<IResponse<Changes>> {
    return this.request('list_changes', { query: { since } });
  }

  stopJob(id: string): Promise<IResponse<unknown>> {
    return this.request('stop_job', { id });
  }

  interruptJob(id: string): Promise<IResponse<unknown>> {
    return this.request('interrupt_job', { id });
  }

  keepPool(id: string, seconds: number): Promise<IResponse<PoolSummary>> {
    return this.request('extend_pool', { id, body: { keep_alive: seconds } });
  }

  releasePool(id: string): Promise<IResponse<PoolSummary>> {
    return this.request('release_pool', { id });
  }

  /** What opens a shell on a host of a job or a pool in a terminal of the server; '' is the first host. */
  shell(of: ShellTarget, id: string, host = ''): Promise<ShellCommand> {
    const query = host ? URLExt.objectToQueryString({ host }) : '';
    return this.read(pathOf(of === 'jobs' ? 'get_job_shell' : 'get_pool_shell', id) + query);
  }

  /** What is read for parts of this API that have a file of their own. */
  async read<T>(path: string, init: RequestInit = {}): Promise<T> {
    return (await dataOf(await this.respond(path, init))) as T;
  }

  /**
   * Read an answer that has a line of JSON before its bytes. An older server half has it in headers alone; the page of a
   * proxy has neither.
   */
  async readBytes<T>(
    path: string,
    reader: IHeadReader<T>,
    init: RequestInit
  ): Promise<{ head: T; bytes: Uint8Array }> {
    const response = await this.respond(path, init);
    let body: Uint8Array;
    try {
      body = new Uint8Array(await response.arrayBuffer());
    } catch (reason) {
      throw lostError(reason);
    }
    const end = body.indexOf(NEWLINE);
    const line = parseObject(new TextDecoder().decode(body.subarray(0, Math.max(end, 0))));
    const head = line && reader.ofLine(line);
    if (head !== null) {
      return { head, bytes: body.slice(end + 1) };
    }
    const older = reader.ofHeaders(response.headers);
    if (older === null) {
      throw pageError(response);
    }
    return { head: older, bytes: body };
  }

  private async request<T>(action: Action, parts: IRequestParts = {}): Promise<IResponse<T>> {
    const { id, query, body: sent } = parts;
    const search = query ? URLExt.objectToQueryString({ ...query }) : '';
    const init = { method: methodOf(action), body: sent && JSON.stringify(sent) };
    const path = postPathOf(action, id);
    const response = path
      ? await this.respondByPost(pathOf(action, id), path, init)
      : await this.respond(pathOf(action, id) + search, init);
    const now = Number(response.headers.get('X-Smx-Now'));
    const version = response.headers.get('X-Smx-Version') ?? undefined;
    const awsUrl = response.headers.get('X-Smx-Aws') ?? undefined;
    const body = response.status === NO_CONTENT ? null : await dataOf(response);
    return { body: body as T, now: now > 0 ? now : null, version, awsUrl };
  }

  /** Where a browser finds something without a script's help. */
  address(path: string): string {
    return URLExt.join(this.settings.baseUrl, ROOT, path);
  }

  /** Send a request; if its method is blocked on the way, send it by POST to the path that does the same. */
  private async respondByPost(
    path: string,
    postPath: string,
    init: RequestInit
  ): Promise<Response> {
    const post = { ...init, method: 'POST', body: init.body ?? '{}' };
    if (this.isPostOnly) {
      return this.respond(postPath, post);
    }
    try {
      return await this.respond(path, init);
    } catch (blocked) {
      if (!isMethodBlocked(blocked)) {
        throw blocked;
      }
      try {
        const response = await this.respond(postPath, post);
        this.isPostOnly = true;
        return response;
      } catch (reason) {
        const isOurs = reason instanceof ApiError && reason.code !== '';
        this.isPostOnly = isOurs && reason.status !== 0;
        // A server half without that path, and a proxy that blocks all, say nothing new.
        throw isOurs ? reason : blocked;
      }
    }
  }

  /** Ask; any answer but a good one is an `ApiError`. */
  private async respond(path: string, init: RequestInit): Promise<Response> {
    const url = this.address(path);
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch (reason) {
      throw lostError(reason);
    }
    if (!response.ok) {
      throw await errorOf(response);
    }
    return response;
  }

  /** Whether POST worked where another method was blocked. */
  private isPostOnly = false;
}

/** Fill in what a proxy removed from the headers. */
function withServerInfo(answer: IResponse<ControllerInfo>): IResponse<ControllerInfo> {
  const { now, server_version, aws_url } = answer.body;
  return {
    ...answer,
    now: answer.now ?? now ?? null,
    version: answer.version ?? server_version,
    awsUrl: answer.awsUrl ?? aws_url
  };
}

/** Parse a JSON object; null if the text is something else. */
function parseObject(text: string): object | null {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' ? parsed : null;
  } catch {
    return null;
  }
}

/** What a good answer holds; a proxy that wants a login may answer well, with a page. */
async function dataOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch (reason) {
    throw reason instanceof SyntaxError ? pageError(response) : lostError(reason);
  }
}

function pageError({ redirected, status }: Response): ApiError {
  const meant = redirected ? UNAUTHORIZED : status;
  return new ApiError(meant, '', 'The server returned a web page instead of data.');
}

/** The connection was lost, before the answer or within it. */
function lostError(reason: unknown): ApiError {
  return new ApiError(0, 'NetworkError', errorText(reason));
}

async function errorOf(response: Response): Promise<ApiError> {
  let body: Partial<ErrorBody> = {};
  try {
    body = ((await response.json()) ?? {}) as Partial<ErrorBody>;
  } catch {
    // Not ours: a proxy's page, or the server's own 404.
  }
  const { status, statusText } = response;
  const answered = `The server returned ${[status, statusText].filter(Boolean).join(' ')}.`;
  const retryAfter = Number(response.headers.get('Retry-After')) || 0;
  return new ApiError(status, body.code ?? '', errorBodyText(body) || answered, retryAfter);
}
