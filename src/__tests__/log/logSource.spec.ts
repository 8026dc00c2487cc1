import { ApiClient } from '../../api/client';
import { classifyFailure } from '../../api/errors';
import { createHistorySource } from '../../charts/historySource';
import { createLogSource } from '../../log/logSource';
import { LogReader } from '../../log/reader';
import { bytesOf } from '../fixtures/fakeLog';

const SAID = {
  'X-Smx-Offset': '4',
  'X-Smx-Total': '4',
  'X-Smx-Final': '1',
  'X-Smx-Host': 'algo-1',
  'X-Smx-Hosts': 'algo-1',
  'X-Smx-Attempt': '1',
  'X-Smx-Attempts': '1'
};

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
    const api = apiOf(answer(broken, SAID), answer('one\n', SAID));
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
