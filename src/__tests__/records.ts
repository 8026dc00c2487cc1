// The record of a job for tests of its view.

import type { JobSpec, Provenance } from '../_types';
import type { IJobRecord } from '../view/source';
import { completed } from './examples';

export const SPEC: JobSpec = {
  kind: 'train',
  source: '\n\nx = 1\nprint(x)\n',
  base_name: 'digits',
  filename: '<digits>',
  engine: 'local',
  instance_groups: [
    {
      name: 'homogeneousCluster',
      instance_type: 'ml.m5.large',
      instance_count: 2,
      until: ''
    }
  ],
  distribution: null,
  keep_alive: 600,
  hyperparameters: { lr: '0.1' },
  environment: { MODE: 'fast', HF_TOKEN: 'hush' },
  channels: [
    {
      name: 'train',
      source: '/lab/data',
      mode: 'File',
      distribution: 'FullyReplicated',
      groups: [],
      data_type: 'S3Prefix',
      content_type: '',
      path: ''
    }
  ],
  outputs: [{ name: 'model', path: '/opt/ml/model', destination: '/lab/models', mode: 'EndOfJob' }],
  source_dir: null,
  entry_point: '',
  send: { path: '/p', sha256: 'a', sizes: { cfg: 1200 }, size: 1200, protocol: '5' },
  receive: ['model'],
  role: '',
  image: '',
  contract: 'v2',
  max_run: 86400,
  python: '/py',
  python_version: '3.11',
  python_named: false,
  requirements: [],
  requirements_only: false,
  imports: [],
  notebook: '/lab/a.ipynb',
  cell_id: 'cell-1',
  working_directory: '/lab',
  metrics: {},
  array: null,
  shared: null,
  retries: 0,
  spot: false,
  disable_output_compression: false,
  network_isolation: false,
  max_wait: 0,
  checkpoint: '',
  checkpoint_local_path: '',
  arguments: [],
  after: [],
  revision: null,
  submitted_at: 1000
};

export const PROVENANCE: Provenance = {
  code_sha256: 'c0de',
  image: '',
  python: '/py',
  python_version: '3.11.7',
  packages: { numpy: '2.1' },
  own_modules: [],
  inputs: [
    {
      channel: 'train',
      method: 'content',
      sha256: '6'.repeat(64),
      files: 2,
      bytes: 2048,
      reason: '',
      host: ''
    }
  ],
  sent_sha256: 'a',
  source_dir_sha256: '',
  hosts: [],
  seeds: {
    sentence: 'No seed is set.',
    libraries: [],
    calls: [],
    hyperparameters: {},
    hash_seed: ''
  },
  revision: { commit: '1'.repeat(40), branch: 'main', folder: '/lab' },
  notes: []
};

/** A job that completed after 100 seconds. */
export function record(fields: Partial<IJobRecord> = {}): IJobRecord {
  const summary = completed(0, { secondary_status: 'Completed' });
  return {
    id: summary.id,
    name: summary.name,
    spec: SPEC,
    state: 'Completed',
    goal: 'run',
    cluster: '',
    lease: 1,
    attempt: 1,
    attempts: [],
    wait_until: null,
    placements: 1,
    created_at: 1000,
    started_at: 1000,
    ended_at: 1100,
    ran_seconds: 100,
    counted_from: 1000,
    modified_at: 1100,
    transitions: [
      { status: 'Starting', start_time: 1000, end_time: 1002, status_message: 'Launching.' },
      { status: 'Training', start_time: 1002, end_time: 1100, status_message: 'Running.' },
      { status: 'Completed', start_time: 1100, end_time: 1100, status_message: 'Done.' }
    ],
    why: null,
    failure_reason: '',
    failure_message: '',
    exit_message: '',
    hosts: [],
    artifacts: [{ name: 'model.tar.gz', path: '/lab/models/model.tar.gz', size: 2048, sha256: '' }],
    received: {},
    warm_pool: null,
    timings: { accepted: 1000, first_line: 1002.5 },
    image: null,
    progress: null,
    metrics: [],
    pace: null,
    metric_notes: [],
    provenance: PROVENANCE,
    peak: null,
    summary,
    bill: {
      price_per_hour: 0.23,
      billable_seconds: 100,
      retained_seconds: 0,
      cost: 0.0064,
      steps: null,
      step_seconds: null,
      cost_per_step: null,
      training_seconds: 100,
      groups: [
        {
          name: 'homogeneousCluster',
          instance_type: 'ml.m5.large',
          instance_count: 2,
          price_per_hour: 0.23,
          cost: 0.0064,
          until: ''
        }
      ]
    },
    ...fields
  };
}
