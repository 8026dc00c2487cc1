import { nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import React from 'react';

import type { IRequestFailure } from '../../api/errors';
import { ConnectionNotice } from '../../components/connectionNotice';
import { applyFailure } from '../../state/connectionState';
import type { IState } from '../../state/state';
import { applyControllerStopped, EMPTY_STATE } from '../../state/state';
import { button, waitForRender } from '../fixtures/fakeModel';

const trans = nullTranslator.load('jupyter_smx');

const trouble = (kind: IRequestFailure['kind']): IRequestFailure => ({
  kind,
  status: 503,
  message: 'Why. And what helps.',
  retryAfter: 0
});

describe('the notice', () => {
  const pressed: string[] = [];

  async function shown(state: IState): Promise<HTMLElement> {
    const widget = ReactWidget.create(
      <ConnectionNotice
        state={state}
        now={1100}
        trans={trans}
        loginUrl="http://here/user/x/login"
        onRefresh={() => pressed.push('refresh')}
        onWake={() => pressed.push('wake')}
      />
    );
    document.body.replaceChildren();
    Widget.attach(widget, document.body);
    await waitForRender();
    return widget.node;
  }

  beforeEach(() => pressed.splice(0));

  it('is empty without a problem', async () => {
    expect((await shown({ ...EMPTY_STATE, connectionStatus: 'ready' })).textContent).toBe('');
  });

  it('links a user who is logged out to the login page under the base URL, in another tab', async () => {
    const node = await shown(applyFailure(EMPTY_STATE, trouble('loggedOut')));
    const link = node.querySelector('a');
    expect(link?.getAttribute('href')).toBe('http://here/user/x/login');
    expect([link?.target, link?.rel]).toEqual(['_blank', 'noopener noreferrer']);
    expect(link?.closest('[role=alert]')).not.toBeNull();
  });

  it('tries to read again after a failed read, and to start again after a failed start', async () => {
    button(await shown(applyFailure(EMPTY_STATE, trouble('lost'))), 'Try again').click();
    const node = await shown(applyControllerStopped(EMPTY_STATE, trouble('refused')).state);
    expect(node.querySelector('[role=alert]')?.textContent).toContain('Why. And what helps.');
    button(node, 'Try again').click();
    expect(pressed).toEqual(['refresh', 'wake']);
  });

  it('names both versions beside everything else, without an alert', async () => {
    const node = await shown({ ...EMPTY_STATE, connectionStatus: 'ready', serverVersion: '9.9.9' });
    expect(node.querySelector('[role=status]')?.textContent).toContain('version 9.9.9');
    expect(node.querySelector('pre')?.textContent).toBe('pip install jupyter-smx==9.9.9');
    expect(node.querySelector('[role=alert]')).toBeNull();
  });
});
