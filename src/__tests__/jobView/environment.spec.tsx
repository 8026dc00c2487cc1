import { nullTranslator } from '@jupyterlab/translation';
import React from 'react';

import type { JobSpec } from '../../_types';
import { Environment } from '../../jobView/sections/environment';
import { mount, tableRows } from '../fixtures/elements';
import { IMAGE_SETTINGS, PROVENANCE, record, SPEC } from '../fixtures/jobRecords';

const trans = nullTranslator.load('jupyter_smx');

describe('the environment of a job', () => {
  it('shows what it ran with, and no value of a secret', async () => {
    const spec = { ...SPEC, hyperparameters: { opt: '"adam"', version: '"1.10"' } };
    const node = await mount(<Environment job={record({ spec })} trans={trans} />);
    expect(tableRows(node, 'Hyperparameters')).toEqual(['opt|adam', 'version|"1.10"']);
    expect(tableRows(node, 'Environment variables')).toEqual(['MODE|fast', 'HF_TOKEN|(hidden)']);
    expect(node.textContent).not.toContain('hush');
    expect(tableRows(node, 'Imported packages')).toEqual(['numpy|2.1']);
    expect(node.textContent).toContain(`${'1'.repeat(40)} on main`);
    expect(node.textContent).toContain('No seed is set.');
    expect(node.textContent).toContain('ml.m5.large × 2');
  });

  it('names the image, and its id', async () => {
    const spec = { ...SPEC, image: 'train:1' };
    const image = {
      ...IMAGE_SETTINGS,
      name: 'train:1',
      id: 'sha256:11',
      digest: 'train@sha256:22'
    };
    const jobs = [record({ spec }), record({ spec, image }), record()];
    const found = await Promise.all(
      jobs.map(async job => {
        const node = await mount(<Environment job={job} trans={trans} />);
        const name = [...node.querySelectorAll('dt')].find(one => one.textContent === 'Image');
        return name?.nextElementSibling?.textContent;
      })
    );
    expect(found).toEqual(['train:1', 'train:1 (sha256:11)', undefined]);
    const node = await mount(<Environment job={record({ spec, image })} trans={trans} />);
    expect(node.textContent).toContain('Image digesttrain@sha256:22');
  });

  it('shows options of the engine, and none for an older server', async () => {
    const spec = { ...SPEC, engine_options: { partition: 'gpu', time: '2h' } };
    const text = (await mount(<Environment job={record({ spec })} trans={trans} />)).textContent;
    expect(text).toContain('Engine optionspartition=gpu, time=2h');
    const older = { ...SPEC, engine_options: undefined } as unknown as JobSpec;
    for (const without of [SPEC, older]) {
      const plain = await mount(<Environment job={record({ spec: without })} trans={trans} />);
      expect(plain.textContent).not.toContain('Engine options');
    }
  });

  it('shows mounts and the size of /dev/shm, and none for an older server', async () => {
    const mounts = [
      { source: '/data', target: '/data', writable: false },
      { source: 'cache', target: '/cache', writable: true }
    ];
    const spec = { ...SPEC, mounts, shm_size: 2 ** 30 };
    const text = (await mount(<Environment job={record({ spec })} trans={trans} />)).textContent;
    expect(text).toContain('Mounts/data:/data, cache:/cache:rw');
    expect(text).toContain('Size of /dev/shm1.0 GiB');
    const older = { ...SPEC, mounts: undefined, shm_size: undefined } as unknown as JobSpec;
    for (const without of [SPEC, older]) {
      const plain = (await mount(<Environment job={record({ spec: without })} trans={trans} />))
        .textContent;
      expect(plain).not.toContain('Mounts');
      expect(plain).not.toContain('/dev/shm');
    }
  });

  const folder = {
    folder: '/lab/src',
    path: '/p',
    sha256: 'a',
    files: 1,
    size: 1,
    ignored: [],
    is_whole: true,
    dependencies: []
  };
  const runs: [string, Partial<JobSpec>, string[]][] = [
    ['a cell', {}, []],
    ['a cell, from an older server', { command: undefined, source_ignore: undefined }, []],
    [
      'only a command',
      { command: ['Rscript', '-e', 'cat(1, 2)'] },
      ["Command: Rscript -e 'cat(1, 2)'"]
    ],
    [
      'a command with a script, and all files of a folder',
      { command: ['bash'], entry_point: 'run.sh', source_dir: folder, source_ignore: 'none' },
      ['Command: bash', 'Entry point: run.sh', 'Source ignore: none']
    ],
    [
      'a script of a folder',
      { entry_point: 'train.py', source_dir: folder },
      ['Entry point: train.py', 'Source ignore: gitignore']
    ]
  ];

  it.each(runs)('has rows for what runs: %s', async (_, fields, expected) => {
    const job = record({ spec: { ...SPEC, ...fields } });
    const node = await mount(<Environment job={job} trans={trans} />);
    const facts = [...node.querySelectorAll('dt')].map(
      one => `${one.textContent}: ${one.nextElementSibling?.textContent}`
    );
    expect(facts.filter(one => /^(Command|Entry point|Source ignore):/.test(one))).toEqual(
      expected
    );
  });

  it('says when it will be known, and how hosts were isolated', async () => {
    const unknown = { provenance: null, ended_at: null };
    const open = await mount(<Environment job={record(unknown)} trans={trans} />);
    expect(open.textContent).toContain('are recorded when the job ends');
    const unrun = await mount(<Environment job={record({ provenance: null })} trans={trans} />);
    expect(unrun.textContent).toContain('the job ended before it ran');
    const machine = {
      hostname: 'box',
      platform: '',
      cpu_model: '',
      cpus: 8,
      vcpus: 2,
      memory_bytes: 0,
      gpus: [],
      gpu_count: 0,
      executable: '',
      python: ''
    };
    const kept = { isolation: 'variables', isolation_reason: 'no user namespaces' };
    const of = { instance_type: 'local', machine, given_up: [] as string[], ...kept };
    const all = { cpus: 2, memory_bytes: 2 ** 33, reason: '' };
    const hosts = [
      { ...of, host: 'algo-1', limits: all },
      { ...of, host: 'algo-2', limits: { ...all, cpus: 0, reason: 'no controller for cpu' } },
      { ...of, host: 'algo-3', limits: { cpus: 0, memory_bytes: 0, reason: 'no control groups' } },
      { ...of, host: 'algo-4', limits: { cpus: 0, memory_bytes: 0, reason: '' } },
      {
        ...of,
        host: 'algo-5',
        limits: all,
        isolation: 'container',
        isolation_reason: '',
        given_up: ['It shares a network.', 'Its jobs are root.']
      }
    ];
    const job = record({ provenance: { ...PROVENANCE, hosts } });
    const node = await mount(<Environment job={job} trans={trans} />);
    expect(node.textContent).toContain('environment variables only: no user namespaces');
    expect(node.textContent).toContain('container');
    expect(node.textContent).toContain('2 of 8');
    const lost = [...node.querySelectorAll('dt')].filter(one => one.textContent === 'Limitations');
    expect(lost.map(one => one.nextElementSibling?.textContent)).toEqual([
      'It shares a network. Its jobs are root.'
    ]);
    const names = [...node.querySelectorAll('dt')].filter(one => one.textContent === 'Limits');
    expect(names.map(one => one.nextElementSibling?.textContent)).toEqual([
      '2 CPUs, 8.0 GiB of memory including swap',
      '8.0 GiB of memory including swap: no controller for cpu',
      'none: no control groups',
      '2 CPUs, 8.0 GiB of memory including swap'
    ]);
  });
});
