import { nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import React from 'react';

import { Files } from '../../jobView/sections/files';
import { waitForRender } from '../fixtures/fakeModel';
import { record, SPEC } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

async function nameShown(folder: string): Promise<string | null> {
  const source_dir = {
    folder,
    path: '/p',
    sha256: '',
    files: 2,
    size: 2048,
    ignored: [],
    is_whole: folder !== '',
    dependencies: []
  };
  const job = record({ spec: { ...SPEC, channels: [], source_dir } });
  const widget = ReactWidget.create(
    <Files job={job} places={{}} trans={trans} address={name => `/get/${name}`} />
  );
  Widget.attach(widget, document.body);
  await waitForRender();
  const cells = widget.node.querySelectorAll(`[aria-label="Inputs of ${job.name}"] tbody td`);
  widget.dispose();
  return cells[1].textContent;
}

describe('the folder of code of a job', () => {
  it('has its path, or says that its files are from several folders', async () => {
    expect(await nameShown('/lab/src')).toBe('/lab/src');
    expect(await nameShown('')).toBe('several folders');
  });
});
