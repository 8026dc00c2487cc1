// Reads the log of one job over the REST API: bytes at an offset, matches of a search, and the URL of the file.

import type { LogResponseCursor } from '../_types';
import type { ApiClient, IHeadReader } from '../api/client';
import { pathOf } from '../api/routes';

/** Which of a job's logs: '' is its first host, 0 its newest run. */
export interface ILogId {
  host: string;
  attempt: number;
}

/**
 * From a byte on (`offset`), up to a byte (`before`) or the end (`last` bytes of it).
 *
 * Bytes that a limit on disk left out are passed over. Without anything new the answer comes after `wait` s.
 */
export interface ILogQuery extends ILogId {
  offset?: number;
  before?: number;
  last?: number;
  limit: number;
  wait: number;
}

/** The bytes from `start` to `next` of a log that is `total` long, and what other logs the job has. */
export interface ILogPart extends ILogId {
  bytes: Uint8Array;
  start: number;
  next: number;
  total: number;
  /** No byte will follow in this log. */
  isFinal: boolean;
  attempts: number;
  hosts: string[];
}

/** Look for words in lines that lie before a byte and not before another one. */
export interface ISearchQuery extends ILogId {
  text: string;
  matchCase: boolean;
  after: number;
  before?: number;
}

/** Bytes at which words begin, the last first, one for each line; `reached` is where to go on. */
export interface ISearchResult {
  places: number[];
  reached: number;
  total: number;
}

export interface ILogSource {
  read(query: ILogQuery, signal: AbortSignal): Promise<ILogPart>;
  find(query: ISearchQuery, signal: AbortSignal): Promise<ISearchResult>;
  /** Where a browser gets the whole log as a file of that name. */
  address(which: ILogId, name: string): string;
}

/** What is said of the bytes of a log; a server half that was not restarted since an update says it in headers alone. */
const CURSOR: IHeadReader<LogResponseCursor> = {
  ofLine: line => {
    // The first line of the job's own log may be JSON, too.
    const { offset, hosts } = line as Partial<LogResponseCursor>;
    return typeof offset === 'number' && Array.isArray(hosts) ? (line as LogResponseCursor) : null;
  },
  ofHeaders: headers => {
    const said = (name: string): string => headers.get(`X-Smx-${name}`) ?? '';
    return said('Offset') === ''
      ? null
      : {
          offset: Number(said('Offset')),
          total: Number(said('Total')),
          final: said('Final') === '1',
          host: said('Host'),
          hosts: said('Hosts').split(','),
          attempt: Number(said('Attempt')),
          attempts: Number(said('Attempts'))
        };
  }
};

/** The logs of a job. */
export function createLogSource(api: ApiClient, id: string): ILogSource {
  return {
    read: async (query, signal) => {
      // Proxies remove headers that they do not know, so the cursor comes in the body.
      const path = pathOf('read_log', id) + queryOf({ ...query, cursor: 'body' });
      const { head, bytes } = await api.readBytes(path, CURSOR, { signal });
      return partOf(head, bytes);
    },
    find: ({ text, matchCase, ...where }, signal) => {
      const query = queryOf({ ...where, text, case: matchCase ? 1 : 0 });
      return api.read(pathOf('search_log', id) + query, { signal });
    },
    address: (which, name) => api.address(pathOf('download_log', id) + queryOf({ ...which, name }))
  };
}

/** What is undefined, empty or 0 is what the server takes anyway. */
function queryOf(asked: Record<string, string | number | undefined>): string {
  const said = Object.entries(asked).filter(([, value]) => Boolean(value));
  return `?${new URLSearchParams(said.map(([name, value]) => [name, String(value)])).toString()}`;
}

function partOf(cursor: LogResponseCursor, bytes: Uint8Array): ILogPart {
  const { offset: next, total, final: isFinal, host, hosts, attempt, attempts } = cursor;
  const start = next - bytes.length;
  return { bytes, start, next, total, isFinal, host, hosts, attempt, attempts };
}
