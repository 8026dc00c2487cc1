// What a job was requested to run with, and what it found: options, Python, packages, hashes, machine, seeds, commit.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { HostLimits, HostProvenance, InstanceGroup, JobSpec, Provenance } from '../../_types';
import { formatDuration, formatSize } from '../../format/numbers';
import { quoteCommand } from '../../format/quoteCommand';
import type { IJobRecord } from '../jobSource';
import type { TableCell } from './primitives';
import { DescriptionList, Monospace, Subsection, Table } from './primitives';

interface IEnvironmentProps {
  job: IJobRecord;
  trans: TranslationBundle;
}

/** Names of variables whose values are hidden, as they may be secrets. */
const SECRET =
  /TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|CONNECTION_?STRING|(^|_)(KEY|SAS)(_|$)/i;

export function Environment({ job, trans }: IEnvironmentProps): JSX.Element {
  return (
    <>
      <RequestedSettings job={job} trans={trans} />
      <Values
        title={trans.__('Hyperparameters')}
        values={shownHyperparameters(job.spec.hyperparameters)}
        trans={trans}
      />
      <Values
        title={trans.__('Environment variables')}
        values={withoutSecrets(job.spec.environment, trans)}
        trans={trans}
      />
      {job.provenance ? (
        <Found job={job} found={job.provenance} trans={trans} />
      ) : (
        <p>{unknownWords(job, trans)}</p>
      )}
    </>
  );
}

/** Return why it was not recorded what the job ran with. */
function unknownWords({ ended_at }: IJobRecord, trans: TranslationBundle): string {
  return ended_at === null
    ? trans.__('Packages, hashes and hosts are recorded when the job ends.')
    : trans.__('No packages, hashes or hosts were recorded: the job ended before it ran.');
}

function withoutSecrets(
  variables: Readonly<Record<string, string>>,
  trans: TranslationBundle
): Record<string, string> {
  const hidden = trans.__('(hidden)');
  const shown = ([name, value]: [string, string]): [string, string] => [
    name,
    SECRET.test(name) ? hidden : value
  ];
  return Object.fromEntries(Object.entries(variables).map(shown));
}

/** Name the settings of the image that the job follows, as an author of images writes them. */
function followedSettings(spec: JobSpec): string {
  const choices: [string, string | undefined][] = [
    ['USER', spec.image_user],
    ['ENTRYPOINT', spec.image_entrypoint],
    ['WORKDIR', spec.image_workdir]
  ];
  return choices
    .filter(([, choice]) => choice === 'image')
    .map(([name]) => name)
    .join(', ');
}

function RequestedSettings({ job, trans }: IEnvironmentProps): JSX.Element {
  const { spec } = job;
  const seconds = (value: number | null): string => (value ? formatDuration(value, trans) : '');
  const yes = (is: boolean): string => (is ? trans.__('Yes') : '');
  return (
    <Subsection title={trans.__('Job settings')}>
      <DescriptionList
        facts={[
          [trans.__('Kind'), spec.kind === 'train' ? trans.__('Training') : trans.__('Processing')],
          [trans.__('Engine'), spec.engine],
          [trans.__('Instances'), spec.instance_groups.map(groupWords).join(' + ')],
          [trans.__('Keep-alive'), seconds(spec.keep_alive)],
          [trans.__('Maximum run time'), seconds(spec.max_run)],
          [trans.__('Retries'), spec.retries || ''],
          [trans.__('Managed spot'), yes(spec.spot)],
          [trans.__('Network isolation'), yes(spec.network_isolation)],
          [trans.__('Settings of the image'), followedSettings(spec)],
          [trans.__('Maximum wait time'), seconds(spec.max_wait)],
          [trans.__('Checkpoints'), spec.checkpoint && <Monospace>{spec.checkpoint}</Monospace>],
          [trans.__('Image'), spec.image && <Monospace>{imageWords(job)}</Monospace>],
          [
            trans.__('Image digest'),
            job.image?.digest && <Monospace>{job.image.digest}</Monospace>
          ],
          [
            trans.__('Local checkpoint path'),
            spec.checkpoint_local_path && <Monospace>{spec.checkpoint_local_path}</Monospace>
          ],
          [trans.__('Engine options'), engineOptionWords(spec)],
          [trans.__('Mounts'), mountWords(spec)],
          [trans.__('Size of /dev/shm'), spec.shm_size ? formatSize(spec.shm_size, trans) : ''],
          [trans.__('Role'), spec.role],
          ...codeFacts(spec, trans)
        ]}
      />
    </Subsection>
  );
}

/** Return what runs as the code of a job, and where. A job that is only a command has no entry point. */
function codeFacts(spec: JobSpec, trans: TranslationBundle): [string, TableCell][] {
  // A server from before an update has no commands.
  const command = quoteCommand(spec.command ?? []);
  return [
    [trans.__('Command'), command && <Monospace>{command}</Monospace>],
    [trans.__('Entry point'), spec.entry_point],
    [trans.__('Source ignore'), spec.source_dir && spec.source_ignore],
    [
      trans.__('Working directory'),
      spec.working_directory && <Monospace>{spec.working_directory}</Monospace>
    ]
  ];
}

/** Return the name of an image, and the id that it had at submission. */
function imageWords({ spec, image }: IJobRecord): string {
  return image === null || image.id === spec.image ? spec.image : `${spec.image} (${image.id})`;
}

/** Return the options of the engine as the option takes them. A server from before an update has none. */
function engineOptionWords(spec: JobSpec): string {
  return Object.entries(spec.engine_options ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
}

/** Return the mounts as the option takes them. A server from before an update has none. */
function mountWords(spec: JobSpec): string {
  const mounts = spec.mounts ?? [];
  return mounts
    .map(({ source, target, writable }) => `${source}:${target}${writable ? ':rw' : ''}`)
    .join(', ');
}

function groupWords({ name, instance_type, instance_count }: InstanceGroup): string {
  const hosts = `${instance_type} × ${instance_count}`;
  return name === 'homogeneousCluster' ? hosts : `${name}: ${hosts}`;
}

/** Return a text that is stored as JSON without its quotes, unless it would look like a number or another type. */
function shownHyperparameter(value: string): string {
  const text = parseJson(value);
  return typeof text === 'string' && parseJson(text) === undefined ? text : value;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function shownHyperparameters(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, shownHyperparameter(value)])
  );
}

function Values(props: {
  title: string;
  values: Readonly<Record<string, string>>;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { title, values, trans } = props;
  const rows = Object.entries(values).map(([name, value]) => [
    <Monospace>{name}</Monospace>,
    value
  ]);
  return rows.length === 0 ? null : (
    <Subsection title={title}>
      <Table label={title} head={[trans.__('Name'), trans.__('Value')]} rows={rows} />
    </Subsection>
  );
}

function Found(props: IEnvironmentProps & { found: Provenance }): JSX.Element {
  const { job, found, trans } = props;
  const { revision, seeds } = found;
  const commit = revision && (
    <>
      <Monospace>{revision.commit}</Monospace>{' '}
      {revision.branch ? trans.__('on %1', revision.branch) : ''}
    </>
  );
  return (
    <>
      <Subsection title={trans.__('Python')}>
        <DescriptionList
          facts={[
            [trans.__('Version'), found.python_version],
            [trans.__('Interpreter'), found.python && <Monospace>{found.python}</Monospace>],
            [trans.__('Requirements'), job.spec.requirements.join(', ')]
          ]}
        />
      </Subsection>
      <Packages found={found} trans={trans} />
      <Subsection title={trans.__('Source')}>
        <DescriptionList
          facts={[
            [trans.__('Git commit'), commit],
            [trans.__('SHA-256 of the code'), <Monospace>{found.code_sha256}</Monospace>],
            [
              trans.__('SHA-256 of the variables'),
              found.sent_sha256 && <Monospace>{found.sent_sha256}</Monospace>
            ],
            [
              trans.__('SHA-256 of the source folder'),
              found.source_dir_sha256 && <Monospace>{found.source_dir_sha256}</Monospace>
            ],
            [trans.__('Seeds'), seeds.sentence],
            [trans.__('Seed calls'), seeds.calls.join(', ')],
            [trans.__('PYTHONHASHSEED'), seeds.hash_seed]
          ]}
        />
        {found.notes.map(note => (
          <p key={note}>{note}</p>
        ))}
      </Subsection>
      {found.hosts.map(host => (
        <Host key={host.host} host={host} trans={trans} />
      ))}
    </>
  );
}

function Packages({ found, trans }: { found: Provenance; trans: TranslationBundle }): JSX.Element {
  const packages = Object.entries(found.packages);
  return (
    <Subsection title={trans.__('Imported packages')}>
      {packages.length === 0 ? (
        <p>{trans.__('Only the Python standard library.')}</p>
      ) : (
        <Table
          label={trans.__('Imported packages')}
          head={[trans.__('Package'), trans.__('Version')]}
          rows={packages}
        />
      )}
      {found.own_modules.length > 0 ? (
        <Table
          label={trans.__('Local modules')}
          head={[trans.__('Local module'), trans.__('File'), trans.__('SHA-256')]}
          rows={found.own_modules.map(({ name, path, sha256 }) => [
            name,
            <Monospace>{path}</Monospace>,
            <Monospace>{sha256}</Monospace>
          ])}
        />
      ) : null}
    </Subsection>
  );
}

/** Return the limits of a host that apply to a job; empty if none was reported. */
function limitWords(limits: HostLimits, trans: TranslationBundle): string {
  const { cpus, memory_bytes, reason } = limits;
  const said = [
    cpus > 0 ? trans._n('%1 CPU', '%1 CPUs', cpus) : '',
    memory_bytes > 0 ? trans.__('%1 of memory including swap', formatSize(memory_bytes, trans)) : ''
  ].filter(Boolean);
  const words = said.join(', ');
  return reason ? `${words || trans.__('none')}: ${reason}` : words;
}

function Host({ host, trans }: { host: HostProvenance; trans: TranslationBundle }): JSX.Element {
  const { machine } = host;
  const isolation: Record<string, string> = {
    container: trans.__('container'),
    namespace: trans.__('Linux namespaces'),
    variables: trans.__('environment variables only'),
    links: trans.__('environment variables, and links in the /opt/ml of the machine')
  };
  const kept = isolation[host.isolation] ?? host.isolation;
  return (
    <Subsection title={trans.__('Host %1', host.host)}>
      <DescriptionList
        facts={[
          [trans.__('Instance type'), host.instance_type],
          [trans.__('Isolation'), [kept, host.isolation_reason].filter(Boolean).join(': ')],
          [trans.__('Limitations'), (host.given_up ?? []).join(' ')],
          [trans.__('Limits'), limitWords(host.limits, trans)],
          [trans.__('Machine'), machine.hostname],
          [trans.__('Platform'), machine.platform],
          [trans.__('CPU'), machine.cpu_model],
          [
            trans.__('vCPUs'),
            machine.vcpus ? trans.__('%1 of %2', machine.vcpus, machine.cpus) : ''
          ],
          [trans.__('Memory'), machine.memory_bytes ? formatSize(machine.memory_bytes, trans) : ''],
          [trans.__('GPUs'), machine.gpus.join(', ')]
        ]}
      />
    </Subsection>
  );
}
