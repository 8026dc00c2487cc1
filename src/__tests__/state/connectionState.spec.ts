import { nullTranslator } from '@jupyterlab/translation';

import { ApiClient } from '../../api/client';
import type { IRequestFailure } from '../../api/errors';
import { ApiError, classifyFailure } from '../../api/errors';
import { formatMoment } from '../../format/numbers';
import {
  applyFailure,
  describeFailure,
  describeStaleness,
  describeVersionMismatch,
  isStateKnown
} from '../../state/connectionState';
import type { IState } from '../../state/state';
import { applyControllerStopped, EMPTY_STATE } from '../../state/state';
import { VERSION } from '../../version';
import { job } from '../fixtures/examples';

const trans = nullTranslator.load('jupyter_smx');

/** Return what the API client throws for an answer. */
async function failureOf(response: Response | Error): Promise<ApiError> {
  const settings = {
    baseUrl: 'http://here/user/x/',
    init: {},
    Request: class {
      headers = new Headers();
    },
    fetch: () => (response instanceof Error ? Promise.reject(response) : Promise.resolve(response))
  };
  const failed: unknown = await new ApiClient(settings as never)
    .controller()
    .catch((reason: unknown) => reason);
  if (!(failed instanceof ApiError)) {
    throw new Error(`That was no failure: ${JSON.stringify(failed)}`);
  }
  return failed;
}

/** The part of a response that the client reads; jsdom has none. */
function answer(status: number, body: string, headers: Record<string, string> = {}): Response {
  return {
    ok: status < 400,
    status,
    statusText: status === 502 ? 'Bad Gateway' : '',
    redirected: 'X-Redirected' in headers,
    headers: new Headers(headers),
    json: () => Promise.resolve().then(() => JSON.parse(body) as unknown)
  } as Response;
}

const ours = (code: string): string =>
  JSON.stringify({ code, message: 'What is wrong.', rule: '', cure: 'What helps.' });

const PAGE = '<html><body>502 Bad Gateway</body></html>';

describe('a failed request', () => {
  it.each([
    ['no answer', new TypeError('Failed to fetch'), 'lost', 'Failed to fetch'],
    ["a proxy's page", answer(502, PAGE), 'broken', 'The server returned 502 Bad Gateway.'],
    ["a proxy's page without a phrase", answer(504, PAGE), 'broken', 'The server returned 504.'],
    ["Jupyter's 404", answer(404, '{"message": "Not Found"}'), 'missing', 'Not Found'],
    ["a hub's 403", answer(403, PAGE), 'loggedOut', 'The server returned 403.'],
    ['401', answer(401, 'null'), 'loggedOut', 'The server returned 401.'],
    [
      'a login page after a redirect',
      answer(200, PAGE, { 'X-Redirected': '1' }),
      'loggedOut',
      'The server returned a web page instead of data.'
    ],
    ['a page', answer(200, PAGE), 'broken', 'The server returned a web page instead of data.'],
    [
      'nobody logged in',
      answer(403, ours('UnrecognizedClientException')),
      'loggedOut',
      'What is wrong. What helps.'
    ],
    [
      'no right',
      answer(403, ours('AccessDeniedException')),
      'forbidden',
      'What is wrong. What helps.'
    ],
    [
      'a sentence of ours',
      answer(503, ours('ServiceUnavailable')),
      'refused',
      'What is wrong. What helps.'
    ],
    [
      'a job that is gone',
      answer(404, ours('ResourceNotFound')),
      'gone',
      'What is wrong. What helps.'
    ]
  ])('is told apart: %s', async (_, response, kind, sentence) => {
    const trouble = classifyFailure(await failureOf(response));
    expect([trouble.kind, trouble.message]).toEqual([kind, sentence]);
  });

  it('may have a time to wait', async () => {
    expect((await failureOf(answer(503, PAGE, { 'Retry-After': '7' }))).retryAfter).toBe(7);
    const date = { 'Retry-After': 'Wed, 21 Oct 2026 07:28:00 GMT' };
    expect((await failureOf(answer(503, PAGE, date))).retryAfter).toBe(0);
  });
});

describe('the words for it', () => {
  const before: IState = { ...EMPTY_STATE, connectionStatus: 'ready', lastResponseAt: 1000 };
  const of = (kind: IRequestFailure['kind'], from = before): IState =>
    applyFailure(from, { kind, status: 502, message: 'Why. And what helps.', retryAfter: 0 });
  const atThousand = formatMoment(1_000, 1_000);

  it.each([
    ['lost', 'Cannot reach the Jupyter server'],
    ['loggedOut', 'Log in again'],
    ['broken', 'The server returned status 502'],
    ['refused', 'Why. And what helps.']
  ] as const)('say of %s what it is and how old everything is', (kind, words) => {
    const [what, since] = describeFailure(of(kind), 1100, trans);
    expect(what).toContain(words);
    expect(since).toBe(`Last updated ${atThousand}.`);
  });

  it('have the day if the time of day is not enough', () => {
    const [, since] = describeFailure(of('lost'), 1000 + 86_400, trans);
    expect(since).toContain(formatMoment(1_000).slice(0, 16));
  });

  it('have no age if nothing was ever listed, or may not be shown', () => {
    expect(describeFailure(of('lost', EMPTY_STATE), 1100, trans)).toHaveLength(1);
    expect(describeFailure(of('forbidden'), 1100, trans)).toEqual([
      'This Jupyter server does not allow you to see jobs and pools. Why. And what helps.'
    ]);
  });

  it('are short on a card', () => {
    expect(describeStaleness(before, 1100, trans)).toBe('');
    expect(describeStaleness(of('lost'), 1100, trans)).toBe(
      `last updated ${atThousand}; server not reachable`
    );
    expect(describeStaleness(of('loggedOut'), 1100, trans)).toContain('log in again');
    const { failure } = of('refused');
    const { state } = applyControllerStopped(before, failure);
    expect(describeStaleness(state, 1100, trans)).toBe('Why. And what helps.');
    expect(describeFailure(state, 1100, trans)).toEqual(['Why. And what helps.']);
  });

  it('say nothing of lists that could not be read', () => {
    const known = (['lost', 'missing', 'forbidden'] as const).map(kind => isStateKnown(of(kind)));
    expect(known).toEqual([true, false, false]);
    expect([
      isStateKnown(EMPTY_STATE),
      isStateKnown(of('lost', EMPTY_STATE)),
      isStateKnown(before)
    ]).toEqual([false, false, true]);
  });

  it('say that there are no jobs after a controller has exited, but not if it cannot start', () => {
    const { failure } = of('refused');
    const had = { ...before, jobs: new Map([['job-1', job(1)]]) };
    const states = [
      applyControllerStopped(before),
      applyControllerStopped(before, failure),
      applyControllerStopped(had, failure)
    ];
    expect(states.map(({ state }) => isStateKnown(state))).toEqual([true, false, true]);
  });
});

describe('the two halves', () => {
  it('are reported if they do not fit, with both versions and the cure', () => {
    const words = describeVersionMismatch({ ...EMPTY_STATE, serverVersion: '9.9.9' }, trans).join(
      ' '
    );
    expect(words).toContain(`This page has version ${VERSION}`);
    expect(words).toContain('the Jupyter server runs version 9.9.9');
    expect(words).toContain('Reload the page.');
    expect(words).toContain('install the same version in every environment');
  });

  it('are not reported if they fit or if one version is unknown', () => {
    expect(describeVersionMismatch({ ...EMPTY_STATE, serverVersion: VERSION }, trans)).toEqual([]);
    expect(describeVersionMismatch(EMPTY_STATE, trans)).toEqual([]);
  });
});
