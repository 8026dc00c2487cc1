// The server extension's routes, typed; nothing is remembered here.

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { ApiError, sentenceOf } from './errors';
import type {
  ArraySummary,
  Changes,
  ErrorBody,
  Job,
  JobSummary,
  PoolSummary,
  Status
} from './_types';

const ROOT = 'jupyter-smx';
const NO_CONTENT = 204;

/** Whether a controller runs, and where it is in the sequence of changes. */
export type ControllerInfo = { running: true; version: string; seq: number } | { running: false };

/** A body, and the server's clock (seconds since the epoch) when it answered, null if it did not say. */
export interface IAnswer<T> {
  body: T;
  now: number | null;
}

/** What is used of the answer that hands a job in. */
export type JobAnswer = Pick<Job, 'id' | 'name'>;

export interface IWhichJobs {
  before?: string;
  status?: Status;
}

export class Api {
  constructor(private readonly settings: ServerConnection.ISettings) {}

  controller(): Promise<IAnswer<ControllerInfo>> {
    return this.request('controller');
  }

  startController(): Promise<IAnswer<ControllerInfo>> {
    return this.request('controller', { method: 'POST' });
  }

  /** One page, newest first: of all jobs or of those with a status, from the newest or `before` a job. */
  jobs(limit: number, which: IWhichJobs = {}): Promise<IAnswer<{ jobs: JobSummary[] }>> {
    const query = URLExt.objectToQueryString({ limit, ...which });
    return this.request(`jobs${query}`);
  }

  async deleteJob(id: string): Promise<void> {
    await this.request(`jobs/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  /** Run a job once more as the job `newId`; said twice, it is done once. */
  rerunJob(id: string, newId: string): Promise<IAnswer<JobAnswer>> {
    const body = JSON.stringify({ id: newId });
    return this.request(`jobs/${encodeURIComponent(id)}/rerun`, { method: 'POST', body });
  }

  /** The newest arrays, with how many of their tasks are where. */
  arrays(limit: number): Promise<IAnswer<{ arrays: ArraySummary[] }>> {
    return this.request(`arrays${URLExt.objectToQueryString({ limit })}`);
  }

  array(id: string): Promise<IAnswer<ArraySummary>> {
    return this.request(`arrays/${encodeURIComponent(id)}?tasks=0`);
  }

  stopArray(id: string): Promise<IAnswer<unknown>> {
    return this.request(`arrays/${encodeURIComponent(id)}/stop`, { method: 'POST' });
  }

  pools(): Promise<IAnswer<{ pools: PoolSummary[] }>> {
    return this.request('pools');
  }

  changes(since: number): Promise<IAnswer<Changes>> {
    return this.request(`changes?since=${since}`);
  }

  stopJob(id: string): Promise<IAnswer<unknown>> {
    return this.request(`jobs/${encodeURIComponent(id)}/stop`, { method: 'POST' });
  }

  keepPool(id: string, seconds: number): Promise<IAnswer<PoolSummary>> {
    const body = JSON.stringify({ keep_alive: seconds });
    return this.request(`pools/${encodeURIComponent(id)}`, { method: 'PATCH', body });
  }

  releasePool(id: string): Promise<IAnswer<PoolSummary>> {
    return this.request(`pools/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  private async request<T>(path: string, init: RequestInit = {}): Promise<IAnswer<T>> {
    const response = await this.respond(path, init);
    const now = Number(response.headers.get('X-Smx-Now'));
    const body: unknown = response.status === NO_CONTENT ? null : await response.json();
    return { body: body as T, now: now > 0 ? now : null };
  }

  /** Where a browser finds something without a script's help. */
  address(path: string): string {
    return URLExt.join(this.settings.baseUrl, ROOT, path);
  }

  /** Ask, for parts of this API that have a file of their own; any answer but a good one is an `ApiError`. */
  async respond(path: string, init: RequestInit): Promise<Response> {
    const url = this.address(path);
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch (reason) {
      throw new ApiError(0, 'NetworkError', sentenceOf(reason));
    }
    if (!response.ok) {
      throw await errorOf(response);
    }
    return response;
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  let body: Partial<ErrorBody> = {};
  try {
    body = (await response.json()) as Partial<ErrorBody>;
  } catch {
    // Not ours: a proxy's page, or the server's own 404.
  }
  const sentence = [body.message, body.rule, body.cure].filter(Boolean).join(' ');
  return new ApiError(response.status, body.code ?? '', sentence || response.statusText);
}
