// The server extension's routes, typed; nothing is remembered here.

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { ApiError } from './errors';
import type { Changes, ErrorBody, JobSummary, PoolSummary } from './_types';

const ROOT = 'jupyter-smx';

/** Whether a controller runs, and where it is in the sequence of changes. */
export type ControllerInfo = { running: true; version: string; seq: number } | { running: false };

/** A body, and the server's clock (seconds since the epoch) when it answered, null if it did not say. */
export interface IAnswer<T> {
  body: T;
  now: number | null;
}

export class Api {
  constructor(private readonly settings: ServerConnection.ISettings) {}

  controller(): Promise<IAnswer<ControllerInfo>> {
    return this.request('controller');
  }

  startController(): Promise<IAnswer<ControllerInfo>> {
    return this.request('controller', { method: 'POST' });
  }

  jobs(limit: number): Promise<IAnswer<{ jobs: JobSummary[] }>> {
    return this.request(`jobs?limit=${limit}`);
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
    const url = URLExt.join(this.settings.baseUrl, ROOT, path);
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch (reason) {
      throw new ApiError(
        0,
        'NetworkError',
        reason instanceof Error ? reason.message : String(reason)
      );
    }
    if (!response.ok) {
      throw await errorOf(response);
    }
    const now = Number(response.headers.get('X-Smx-Now'));
    return { body: (await response.json()) as T, now: now > 0 ? now : null };
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
