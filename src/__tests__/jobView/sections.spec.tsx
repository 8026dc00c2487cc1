import { nullTranslator } from '@jupyterlab/translation';
import React from 'react';

import { Code } from '../../jobView/sections/code';
import { Compare, comparisonCandidates } from '../../jobView/sections/compare';
import { Events } from '../../jobView/sections/events';
import { Files } from '../../jobView/sections/files';
import { DiffLines } from '../../jobView/sections/primitives';
import { completed } from '../fixtures/examples';
import { mount, tableRows } from '../fixtures/elements';
import { button, waitForRender } from '../fixtures/fakeModel';
import { record, SPEC } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

describe('the files of a job', () => {
  const there = { exists: true, is_folder: false, shown_as: 'models/model.tar.gz' };
  const files = (fields: Partial<React.ComponentProps<typeof Files>> = {}): JSX.Element => (
    <Files job={record()} places={{}} trans={trans} address={name => `/get/${name}`} {...fields} />
  );

  it('lists inputs and outputs, with sizes', async () => {
    const node = await mount(files());
    expect(tableRows(node, 'Inputs of train-digits-0')).toEqual([
      'train|/lab/data|File|2 files, 2.0 KiB|'
    ]);
    expect(tableRows(node, 'Variables of train-digits-0')).toEqual([
      'sent|cfg|1.2 KiB',
      'not received|model|'
    ]);
    expect(tableRows(node, 'Outputs of train-digits-0')).toEqual([
      'model|/opt/ml/model|/lab/models|'
    ]);
  });

  it('downloads each artefact, and opens those that the file browser shows', async () => {
    const onOpen = jest.fn();
    const places = { '/lab/models/model.tar.gz': there, '/lab/models': undefined };
    const node = await mount(files({ places, onOpen }));
    const link = node.querySelector('a');
    expect(link?.getAttribute('href')).toBe('/get/model.tar.gz');
    expect(link?.download).toBe('model.tar.gz');
    button(node, 'Open models/model.tar.gz in JupyterLab').click();
    expect(onOpen).toHaveBeenCalledWith(there);
  });

  it.each([
    ['is gone', { ...there, exists: false }],
    ['lies elsewhere', { ...there, shown_as: null }]
  ])('opens nothing that %s', async (_, place) => {
    const places = { '/lab/models/model.tar.gz': place };
    const node = await mount(files({ places, onOpen: jest.fn() }));
    expect(node.querySelector('button')).toBeNull();
  });

  it('says of a running job that its files come later', async () => {
    const running = record({ ended_at: null, artifacts: [], spec: { ...SPEC, channels: [] } });
    const node = await mount(files({ job: running }));
    expect(node.textContent).toContain('Artifacts are available when the job ends.');
    expect(tableRows(node, 'Variables of train-digits-0')).toContain('pending|model|');
    expect(node.textContent).toContain(
      'This job has no inputs. Use --input NAME=PATH to provide files.'
    );
  });
});

describe('lines of a diff', () => {
  it('are marked if one was added or removed, even one that looks like the head of a diff', async () => {
    const lines = ['--- a', '+++ b', '@@ -1,2 +1,2 @@', '--- comment', '+++x', ' y'];
    const node = await mount(<DiffLines lines={lines} label={trans.__('Changes')} />);
    const tags = [...node.querySelectorAll('.jp-smx-diff-line')].map(one => one.tagName);
    expect(tags).toEqual(['SPAN', 'SPAN', 'SPAN', 'DEL', 'INS', 'SPAN']);
  });
});

describe('the events of a job', () => {
  it('lists its steps with their durations, and the stages before its first line', async () => {
    const node = await mount(<Events job={record()} now={2000} trans={trans} />);
    const steps = tableRows(node, 'Steps of train-digits-0').map(row => row.split('|'));
    expect(steps.map(([step, , took, words]) => [step, took, words])).toEqual([
      ['Starting', '2 s', 'Launching.'],
      ['Training', '1 min 38 s', 'Running.'],
      ['Completed', '', 'Done.']
    ]);
    expect(tableRows(node, 'Timeline of train-digits-0')).toEqual([
      'Accepted by the controller|0 ms|',
      'First line ran|2.5 s|2.5 s'
    ]);
  });

  it('counts the current step of a running job', async () => {
    const training = { status: 'Training', start_time: 1000, end_time: null } as const;
    const running = record({ transitions: [{ ...training, status_message: '' }] });
    const node = await mount(<Events job={running} now={1065} trans={trans} />);
    expect(node.textContent).toContain('1 min 5 s so far');
  });

  it.each([
    ['forward', 4700],
    ['back', 1010]
  ])('counts without a clock that was set %s, and says that it was', async (_, ended_at) => {
    const [starting, training, over] = record().transitions;
    const transitions = [
      starting,
      { ...training, end_time: ended_at },
      { ...over, start_time: ended_at, end_time: ended_at }
    ];
    const job = record({ transitions, ended_at, ran_seconds: 98 });
    const node = await mount(<Events job={job} now={5000} trans={trans} />);
    expect(node.textContent).toContain('The system clock was changed');
    expect(node.textContent).toContain('the hosts worked for 1 min 38 s.');
    const honest = await mount(
      <Events job={record({ ran_seconds: 98 })} now={5000} trans={trans} />
    );
    expect(honest.textContent).not.toContain('The clock was set');
  });

  it('counts a run that continues from the moment that the server reports', async () => {
    const step = {
      status_message: '',
      status: 'Training',
      start_time: 1000,
      end_time: null
    } as const;
    const set = record({ ended_at: null, transitions: [step], counted_from: 4600 });
    const node = await mount(<Events job={set} now={4665} trans={trans} />);
    expect(node.textContent).toContain('the hosts worked for 1 min 5 s.');
  });

  it('has the counted duration of earlier runs, and the wall clock if it was not counted', async () => {
    const lost = {
      number: 1,
      cluster: '',
      reason: 'Lost.',
      hosts: [],
      started_at: 1000,
      interrupted: false
    };
    const attempts = [
      { ...lost, ended_at: 4700, ran_seconds: 100 },
      { ...lost, number: 2, ended_at: 1050, ran_seconds: null },
      { ...lost, number: 3, started_at: null, ended_at: 1050, ran_seconds: null }
    ];
    const node = await mount(<Events job={record({ attempts })} now={5000} trans={trans} />);
    const took = tableRows(node, 'Earlier attempts of train-digits-0').map(
      row => row.split('|')[2]
    );
    expect(took).toEqual(['1 min 40 s', '50 s', '']);
  });

  it('says why the start was cold, with the field that differed', async () => {
    const differences = [{ pool: 'm5-1', field: 'image', wanted: 'a:2', found: 'a:1' }];
    const why = {
      start: 'cold',
      sentence: 'Cold: pool m5-1 has another image.',
      pool: '',
      reused_from: '',
      differences,
      isolation: '',
      notes: ['A note.']
    } as const;
    const node = await mount(
      <Events job={record({ why: { ...why, notes: ['A note.'] } })} now={0} trans={trans} />
    );
    expect(node.textContent).toContain('Cold: pool m5-1 has another image.');
    expect(node.textContent).toContain('A note.');
    expect(tableRows(node, 'Pools that could not be reused')).toEqual(['m5-1|image|a:2|a:1']);
  });

  it('shows the raised exception as text, and the earlier runs', async () => {
    const traceback = 'Traceback:\n<img src=x onerror=alert(1)>';
    const exception = { type: 'KeyError', message: '1', traceback, line: 3 };
    const host = {
      host: 'algo-1',
      cause: 'exit',
      exit_code: 1,
      signal: null,
      failure: '',
      reason: '',
      end_reason: '',
      message: ''
    };
    const failed = record({
      failure_reason: 'AlgorithmError: KeyError',
      hosts: [
        {
          ...host,
          exception,
          left_behind: [],
          errors: ['model did not come back.'],
          exited_at: null,
          end_reason: ''
        }
      ],
      attempts: [
        {
          number: 1,
          cluster: 'c',
          reason: 'A host was lost.',
          started_at: 1000,
          ended_at: 1030,
          ran_seconds: 30,
          interrupted: false,
          hosts: []
        }
      ]
    });
    const node = await mount(<Events job={failed} now={0} trans={trans} />);
    expect(node.querySelector('[aria-label="Traceback on algo-1"]')?.textContent).toBe(traceback);
    expect(node.querySelector('img')).toBeNull();
    expect(node.textContent).toContain('model did not come back.');
    expect(tableRows(node, 'Earlier attempts of train-digits-0')[0]).toMatch(
      /^1\|.*\|30 s\|A host was lost\.$/
    );
  });
});

describe('the code of a job', () => {
  const ran = { code: 'x = 1', first: 3 };
  const common = { name: 'digits-1', ran, isFile: false, trans, languages: null };

  it('shows the changes since, and on request the code as it ran', async () => {
    const reveal = jest.fn();
    const origin = { text: 'x = 2', path: 'a.ipynb', reveal };
    const since = { origin, lines: ['@@ -3,1 +3,1 @@', '-x = 1', '+x = 2'] };
    const node = await mount(<Code {...common} since={since} />);
    expect(node.querySelector('del')?.textContent).toBe('-x = 1\n');
    expect(node.querySelector('ins')?.textContent).toBe('+x = 2\n');
    expect(node.textContent).toContain('The cell in a.ipynb has changed since the job ran.');
    button(node, 'Go to cell').click();
    expect(reveal).toHaveBeenCalledTimes(1);
    button(node, 'As submitted').click();
    await waitForRender();
    expect(node.querySelector('ins')).toBeNull();
    expect(node.querySelector('.jp-smx-code')?.textContent).toBe('x = 1');
    expect(node.querySelector('.jp-smx-numbers')?.textContent).toBe('3');
  });

  it('says that nothing changed, and opens the notebook that is closed', async () => {
    const onOpen = jest.fn();
    const since = { origin: { text: 'x = 1', path: 'a.ipynb' }, lines: [] };
    const node = await mount(<Code {...common} since={since} onOpen={onOpen} />);
    expect(node.textContent).toContain('The cell in a.ipynb has not changed since the job ran.');
    button(node, 'Open notebook').click();
    expect(onOpen).toHaveBeenCalledWith('a.ipynb');
  });

  it.each([
    ['program', 'submitted by a program'],
    ['unnamed', 'does not name a notebook'],
    ['elsewhere', 'outside the root folder'],
    ['gone', 'moved or deleted'],
    ['no-cell', 'no longer in its notebook']
  ] as const)('says why it cannot be compared: %s', async (since, words) => {
    const node = await mount(<Code {...common} since={since} />);
    expect(node.querySelector('[role=status]')?.textContent).toContain(words);
    expect(node.querySelector('.jp-smx-code')?.textContent).toBe('x = 1');
  });
});

describe('comparing a job', () => {
  it('offers those of the same name first, the newest of each first, and not itself', () => {
    const jobs = [
      completed(1),
      completed(2, { base_name: 'other' }),
      completed(3),
      completed(4, { base_name: 'other' }),
      completed(5)
    ];
    expect(comparisonCandidates(completed(5), jobs).map(one => one.id)).toEqual([
      'job-3',
      'job-1',
      'job-4',
      'job-2'
    ]);
  });

  it('shows the answer, and what could not be compared', async () => {
    const found = {
      before: 'a-1',
      after: 'a-2',
      sentence: 'No differences except hyperparameter lr (1 → 2).',
      code: ['--- a-1', '+++ a-2', '@@ -1 +1 @@', '-x', '+y'],
      changes: [{ section: 'hyperparameter', name: 'lr', before: null, after: '2' }],
      unknown: ['a-1 left no provenance.']
    };
    const onChoose = jest.fn();
    const props = { name: 'a-2', others: [completed(1)], other: '', trans, onChoose };
    const node = await mount(<Compare {...props} found={found} />);
    expect(node.querySelector('[role=status]')?.textContent).toBe(found.sentence);
    expect(tableRows(node, 'Differences between a-1 and a-2')).toEqual(['hyperparameter|lr|–|2']);
    expect(node.querySelectorAll('ins')).toHaveLength(1);
    expect(node.textContent).toContain('a-1 left no provenance.');
    const select = node.querySelector('select');
    expect(select?.labels?.[0].textContent).toBe('Compare with');
  });

  it('shows the message of the server if there is nothing to compare with', async () => {
    const props = { name: 'a', others: [], other: '', trans, onChoose: jest.fn() };
    const node = await mount(<Compare {...props} found="a has no run before a-1." />);
    expect(node.querySelector('[role=status]')?.textContent).toBe('a has no run before a-1.');
    expect(node.querySelector('table')).toBeNull();
  });
});
