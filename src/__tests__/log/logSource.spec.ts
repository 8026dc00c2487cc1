import { ApiClient } from '../../api/client';
import { classifyFailure } from '../../api/errors';
import { createHistorySource } from '../../charts/historySource';
import { createLogSource } from '../../log/logSource';
import { LogReader } from '../../log/reader';
import { bytesOf } from '../fixtures/fakeLog';

const CURSOR = JSON.stringify({
  offset: 4,
  total: 9,
  final: false,
  host: 'algo-1',
  hosts: ['algo-1', 'algo-2'],
  attempt: 1,
  attempts: 2
});

/** As much of an answer as is looked at; an error is what its body ends with. */
function answer(body: string | Error, headers: Record<string, string>): Response {
  const read = <T>(made: (text: string) => T): Promise<T> =>
    body instanceof Error ? Promise.reject(body) : Promise.resolve(body).then(made);
  return {
    ok: true,
    status: 200,
    redirected: headers.login === 'yes',
    headers: new Headers(headers),
    json: () => read(text => JSON.parse(text) as unknown),
    arrayBuffer: () => read(bytesOf)
  } as unknown as Response;
}

function apiOf(...answers: Response[]): ApiClient {
  const settings = {
    baseUrl: 'http://here/',
    init: {},
    Request: class {
      headers = new Headers();
    },
    fetch: () => Promise.resolve(answers.shift())
  };
  return new ApiClient(settings as never);
}

const broken = new TypeError('network error');
const { signal } = new AbortController();

describe('a log over the routes of the server', () => {
  it('is asked for again when the connection breaks within an answer', async () => {
    jest.useFakeTimers();
    const said = JSON.parse(CURSOR) as Record<string, unknown>;
    const last = JSON.stringify({ ...said, total: 4, final: true, attempts: 1 });
    const api = apiOf(answer(broken, {}), answer(`${last}\none\n`, {}));
    const reader = new LogReader(createLogSource(api, 'job'));
    reader.start();
    await jest.advanceTimersByTimeAsync(0);
    expect(reader.problem).toEqual({ kind: 'outage', message: 'network error', isAsleep: false });
    await jest.advanceTimersByTimeAsync(1_000);
    expect(reader.problem).toBeNull();
    expect(reader.window.rows.map(row => row.end)).toEqual([4]);
    reader.dispose();
    jest.useRealTimers();
  });

  it('is read without any header of the server half', async () => {
    const log = createLogSource(apiOf(answer(`${CURSOR}\n{}\n\n`, {})), 'job');
    const part = await log.read({ host: '', attempt: 0, limit: 9, wait: 0 }, signal);
    expect([new TextDecoder().decode(part.bytes), part.start, part.next]).toEqual(['{}\n\n', 0, 4]);
    expect(part).toMatchObject({ total: 9, isFinal: false, hosts: ['algo-1', 'algo-2'] });
    expect([part.host, part.attempt, part.attempts]).toEqual(['algo-1', 1, 2]);
  });

  it('is read from a server half that is older than the page', async () => {
    const headers = {
      'X-Smx-Offset': '14',
      'X-Smx-Total': '20',
      'X-Smx-Final': '0',
      'X-Smx-Host': 'algo-2',
      'X-Smx-Hosts': 'algo-1,algo-2',
      'X-Smx-Attempt': '2',
      'X-Smx-Attempts': '3'
    };
    const log = createLogSource(apiOf(answer('{"step": 1}\nx\n', headers)), 'job');
    const part = await log.read({ host: '', attempt: 0, limit: 14, wait: 0 }, signal);
    expect(new TextDecoder().decode(part.bytes)).toBe('{"step": 1}\nx\n');
    expect(part).toMatchObject({ start: 0, next: 14, total: 20, isFinal: false, host: 'algo-2' });
    expect([part.hosts, part.attempt, part.attempts]).toEqual([['algo-1', 'algo-2'], 2, 3]);
  });

  it.each([
    ['a page', {}, 'broken'],
    ['a page to log in', { login: 'yes' }, 'loggedOut']
  ])('is not %s of a proxy', async (_, headers, kind) => {
    const page = '<html></html>';
    const ask = { host: '', attempt: 0, limit: 1, wait: 0 };
    const log = createLogSource(apiOf(answer(page, headers), answer(page, headers)), 'job');
    const read: unknown = await log.read(ask, signal).catch((reason: unknown) => reason);
    const what = { host: '', attempt: 1, text: 'x', matchCase: false, after: 0 };
    const found: unknown = await log.find(what, signal).catch((reason: unknown) => reason);
    const message = 'The server returned a web page instead of data.';
    expect(classifyFailure(read)).toMatchObject({ kind, message });
    expect(classifyFailure(found)).toMatchObject({ kind, message });
  });
});

describe('what a job used', () => {
  it('is lost where the connection breaks within an answer', async () => {
    const history = createHistorySource(apiOf(answer(broken, {})), 'job');
    const ask = { since: 0, attempt: 0 };
    const failed: unknown = await history.usage(ask, signal).catch((reason: unknown) => reason);
    expect(classifyFailure(failed)).toMatchObject({ kind: 'lost', message: 'network error' });
  });
});
