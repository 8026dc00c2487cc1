import { ApiClient } from '../../api/client';

interface ISent {
  method: string;
  path: string;
  body: string | null;
}

type Reply = [status: number, body?: unknown];

const REFUSAL = { code: 'ResourceInUse', message: 'It runs.' };

/** A client, what it sent, and the headers of answers; `reply` answers as the server or as a proxy in front of it. */
function openClient(reply: (sent: ISent) => Reply | Error): {
  api: ApiClient;
  sent: string[];
  headers: Headers;
} {
  const sent: string[] = [];
  const headers = new Headers();
  class FakeRequest {
    constructor(
      readonly url: string,
      readonly init: RequestInit
    ) {}
    readonly headers = new Headers();
  }
  const respond = async ({ url, init }: FakeRequest): Promise<Response> => {
    const path = url.replace('http://here/jupyter-smx/', '');
    const method = init.method ?? 'GET';
    const body = typeof init.body === 'string' ? init.body : null;
    sent.push([method, path, body].filter(part => part !== null).join(' '));
    const answer = reply({ method, path, body });
    if (answer instanceof Error) {
      throw answer;
    }
    const [status, content] = answer;
    return Promise.resolve({
      ok: status < 400,
      status,
      statusText: '',
      redirected: false,
      headers,
      // A page is no JSON.
      json: () =>
        content === undefined ? Promise.reject(new SyntaxError('<')) : Promise.resolve(content)
    } as unknown as Response);
  };
  const settings = { baseUrl: 'http://here/', init: {}, Request: FakeRequest, fetch: respond };
  return { api: new ApiClient(settings as never), sent, headers };
}

/** A proxy that lets only GET and POST through, in front of a server that does what it should. */
const postOnly =
  (status: number) =>
  ({ method, path }: ISent): Reply => {
    if (method !== 'GET' && method !== 'POST') {
      return [status];
    }
    return path.endsWith('/delete') ? [204] : [200, {}];
  };

describe('the client behind a proxy', () => {
  it.each([405, 501, 403])('uses POST after a %d, and then at once', async status => {
    const { api, sent } = openClient(postOnly(status));
    await api.deleteJob('a');
    await api.keepPool('b', 900);
    await api.releasePool('c');
    expect(sent).toEqual([
      'DELETE jobs/a',
      'POST jobs/a/delete {}',
      'POST pools/b/extend {"keep_alive":900}',
      'POST pools/c/release {}'
    ]);
  });

  it('takes the refusal of the server half from either method', async () => {
    const direct = openClient(() => [403, { ...REFUSAL, code: 'AccessDeniedException' }]);
    await expect(direct.api.deleteJob('a')).rejects.toMatchObject({ status: 403 });
    expect(direct.sent).toEqual(['DELETE jobs/a']);
    const byPost = openClient(({ method }) => (method === 'POST' ? [409, REFUSAL] : [405]));
    await expect(byPost.api.deleteJob('a')).rejects.toThrow('It runs.');
    await expect(byPost.api.deleteJob('a')).rejects.toThrow('It runs.');
    expect(byPost.sent.length).toBe(3);
  });

  it('says what blocked the method if the server has no path for POST', async () => {
    const { api, sent } = openClient(({ method }) => (method === 'POST' ? [404] : [405]));
    await expect(api.deleteJob('a')).rejects.toThrow('The server returned 405.');
    await expect(api.deleteJob('a')).rejects.toThrow('The server returned 405.');
    expect(sent.length).toBe(4);
  });

  it.each([[504], [502], [404]] as Reply[])('sends nothing again after %d', async status => {
    const { api, sent } = openClient(() => [status]);
    await expect(api.releasePool('a')).rejects.toMatchObject({ status });
    expect(sent).toEqual(['DELETE pools/a']);
  });

  it('has clock and version of the server without headers', async () => {
    const body = { running: true, version: '1', seq: 4, now: 1010.5, server_version: '9.9.9' };
    const { api } = openClient(() => [200, body]);
    expect(await api.controller()).toMatchObject({ now: 1010.5, version: '9.9.9' });
    expect(await api.startController()).toMatchObject({ now: 1010.5, version: '9.9.9' });
  });

  it('has the address of the front from the header of changes, or from the body of the state', async () => {
    const body = { running: false, aws_url: 'http://127.0.0.1:40123' };
    const { api, headers } = openClient(() => [200, body]);
    expect((await api.controller()).awsUrl).toBe('http://127.0.0.1:40123');
    expect((await api.changes(1)).awsUrl).toBeUndefined();
    headers.set('X-Smx-Aws', '');
    expect((await api.changes(1)).awsUrl).toBe('');
  });
});
