import { nullTranslator } from '@jupyterlab/translation';

import type { JobSummary } from '../../_types';
import {
  describeJobFailure,
  failureKind,
  formatFailure,
  lineOfCure
} from '../../format/failureText';
import { formatJobEnd, formatStep } from '../../format/jobText';
import { plainText } from '../../format/plainText';
import { completed } from '../fixtures/examples';

const trans = nullTranslator.load('jupyter_smx');

const failed = (fields: Partial<JobSummary> = {}): JobSummary =>
  completed(1, { status: 'Failed', secondary_status: 'Failed', ...fields });

describe('the kind of a failure', () => {
  it.each([
    ['KeyError', { failure_type: 'KeyError', message: "AlgorithmError: KeyError: 'x'" }],
    ['out of memory', { failure_type: 'out of memory' }],
    ['out of memory', { message: 'AlgorithmError: OutOfMemory: the system killed the job.' }],
    ['exit code 3', { message: 'AlgorithmError: Exit Code: 3' }],
    ['exit code 2', { message: 'AlgorithmError: Exit Code: 2. sh: foo: not found' }],
    ['exit code 1', { message: 'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nError' }],
    ['signal 9 (SIGKILL)', { message: 'AlgorithmError: The job was ended by signal 9 (SIGKILL).' }],
    ['ValueError', { message: 'AlgorithmError: ValueError: no' }],
    ['error in the code', { message: 'AlgorithmError: my own failure file' }],
    ['ClientError', { message: 'ClientError: channel train: there is no such file.' }],
    ['InternalServerError', { message: 'InternalServerError: Host algo-1 was lost.' }],
    ['', { message: '' }]
  ])('is %s', (kind, fields) => {
    const job = failed(fields);
    expect(failureKind(job, trans)).toBe(kind);
    expect(formatStep(job, trans)).toBe(kind ? `Failed: ${kind}` : 'Failed');
    expect(formatJobEnd(job, trans)).not.toContain('AlgorithmError');
  });

  it('has the line of the code', () => {
    expect(formatFailure(failed({ failure_type: 'KeyError', failure_line: 14 }), trans)).toBe(
      'Failed: KeyError, line 14'
    );
  });
});

describe('why a job failed', () => {
  const message = "AlgorithmError: NameError: name 'x' is not defined";
  const cure = 'x is a notebook variable that was not sent to the job. Add --send x';

  it('is cause and cure by its record, without the words of the title', () => {
    const record = { failure_reason: 'no', failure_message: message, failure_cure: cure };
    const job = failed({
      failure_type: 'NameError',
      failure_line: 2,
      message: `${message}. ${cure}`
    });
    const found = describeJobFailure(job, record, trans);
    expect(found?.title).toBe('Failed: NameError, line 2');
    expect(found).toMatchObject({ cause: "name 'x' is not defined", cure, line: '--send x' });
  });

  it('is the whole message without a record, and nothing of a job that did not fail', () => {
    const job = failed({ failure_type: 'NameError', message: `${message}. ${cure}` });
    const found = describeJobFailure(job, null, trans);
    expect(found).toMatchObject({ cause: `name 'x' is not defined. ${cure}`, cure: '', line: '' });
    // The record of a job whose verdict is not in it yet says nothing of the failure.
    const early = { failure_reason: '', failure_message: '', failure_cure: '' };
    expect(describeJobFailure(job, early, trans)).toEqual(found);
    expect(describeJobFailure(completed(1), null, trans)).toBeNull();
  });

  it('says nothing twice of an exit code', () => {
    const job = failed({ message: 'AlgorithmError: Exit Code: 3' });
    expect(describeJobFailure(job, null, trans)?.cause).toBe('');
  });

  it('is cut, and without characters that are not shown', () => {
    const job = failed({ message: `AlgorithmError: \u001b[31m<b>\u202e${'x'.repeat(5000)}` });
    const found = describeJobFailure(job, null, trans);
    expect(found?.cause).toHaveLength(1200);
    expect(found?.cause.startsWith('[31m<b>xxx')).toBe(true);
    expect(found?.cause.endsWith('x…')).toBe(true);
  });
});

it.each([
  [
    'data.csv is in the folder of the notebook but not in the job. Add --input data=data.csv to provide it as /opt/ml/input/data/data.',
    '--input data=data.csv'
  ],
  [
    'Add inputs={"data": "my data"} to provide it as /opt/ml/input/data/data.',
    'inputs={"data": "my data"}'
  ],
  [
    'helper is in the folder of the notebook but not in the job. Add --source-dir .',
    '--source-dir .'
  ],
  ['helper is in src but not in the job. Add --source-dir src instead', '--source-dir src'],
  [
    'a.json is in /n/src but was not sent: .gitignore excludes it. Add --source-ignore none',
    '--source-ignore none'
  ],
  [
    'np is a module that the notebook imported. Import it in the cell: import numpy as np',
    'import numpy as np'
  ],
  ['A job has no keyboard. Send the value from the notebook.', ''],
  ['', '']
])('the line of a cure: %s', (cure, line) => {
  expect(lineOfCure(cure)).toBe(line);
});

it('text of others keeps its lines and its script, and nothing that changes its direction', () => {
  expect(plainText('a\n\tb\u0007 שלום\u202e', 99)).toBe('a\n\tb שלום');
  expect(plainText('abcdef', 4)).toBe('abc…');
});
