import { nullTranslator } from '@jupyterlab/translation';
import React from 'react';

import { Events } from '../../jobView/sections/events';
import { mount } from '../fixtures/elements';
import { record } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

describe('the end of a job', () => {
  it('says what a processing job said at its end, and why it failed in our own words', async () => {
    const failed = record({
      exit_message: '2 rows left out',
      failure_reason: 'AlgorithmError: Exit Code: 1',
      failure_message: 'AlgorithmError: KeyError: 1',
      failure_cure: 'Add --send cfg'
    });
    const node = await mount(<Events job={failed} now={0} trans={trans} />);
    expect(node.textContent).toContain('2 rows left out');
    expect(node.textContent).toContain('KeyError: 1. Add --send cfg');
    const silent = await mount(<Events job={record({})} now={0} trans={trans} />);
    expect(silent.textContent).not.toContain('Exit message');
  });
});
