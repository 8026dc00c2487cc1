// Inputs and outputs of a job, each with buttons to open or download it where that is possible.

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Artifact, Channel, InputDigest, Output, FileLocation } from '../../_types';
import { TextButton } from '../../components/textButton';
import { formatSize } from '../../format/numbers';
import type { IJobRecord, IPlaces } from '../jobSource';
import type { TableCell } from './primitives';
import { Monospace, Subsection, Table } from './primitives';

export interface IFileActions {
  /** Open a file or a folder that the file browser shows; absent if JupyterLab has no command for it. */
  onOpen?: (place: FileLocation) => void;
  /** Return the URL of an artefact for a download. */
  address: (artifact: string) => string;
}

export interface IFilesProps extends IFileActions {
  job: IJobRecord;
  places: IPlaces;
  trans: TranslationBundle;
}

/** Rows of artefacts that are drawn; a longer list is of little use, and all files are in one folder. */
const MOST = 500;

export function Files(props: IFilesProps): JSX.Element {
  const { job, trans } = props;
  return (
    <>
      <Subsection title={trans.__('Inputs')}>
        <Inputs {...props} />
      </Subsection>
      <Subsection title={trans.__('Variables')}>
        <Variables job={job} trans={trans} />
      </Subsection>
      {job.spec.outputs.length > 0 ? (
        <Subsection title={trans.__('Outputs')}>
          <Outputs {...props} />
        </Subsection>
      ) : null}
      <Subsection title={trans.__('Artifacts')}>
        <Artifacts {...props} />
      </Subsection>
    </>
  );
}

function Inputs(props: IFilesProps): JSX.Element {
  const { job, trans } = props;
  const { channels, source_dir } = job.spec;
  const digests = job.provenance?.inputs ?? [];
  const rows: TableCell[][] = channels.map(channel => [
    channel.name,
    <Monospace>{channel.source}</Monospace>,
    modeWords(channel, trans),
    heldWords(
      digests.filter(one => one.channel === channel.name),
      trans
    ),
    <OpenButton path={channel.source} {...props} />
  ]);
  if (source_dir) {
    const held = filesWords(source_dir.files, source_dir.size, trans);
    const folder = source_dir.folder ? (
      <Monospace>{source_dir.folder}</Monospace>
    ) : (
      trans.__('several folders')
    );
    const open = <OpenButton path={source_dir.folder} {...props} />;
    rows.push([trans.__('source folder'), folder, '', held, open]);
  }
  if (rows.length === 0) {
    return (
      <p>{trans.__('This job has no inputs. Use %1 to provide files.', '--input NAME=PATH')}</p>
    );
  }
  return (
    <Table
      label={trans.__('Inputs of %1', job.name)}
      head={[trans.__('Name'), trans.__('From'), trans.__('Mode'), trans.__('Content'), '']}
      rows={rows}
    />
  );
}

function modeWords({ mode, distribution, groups }: Channel, trans: TranslationBundle): string {
  const how = distribution === 'FullyReplicated' ? '' : trans.__('sharded by host');
  const whom = groups.length > 0 ? trans.__('for %1', groups.join(', ')) : '';
  return [mode, how, whom].filter(Boolean).join(', ');
}

function filesWords(files: number, bytes: number, trans: TranslationBundle): string {
  return trans.__('%1, %2', trans._n('%1 file', '%1 files', files), formatSize(bytes, trans));
}

function heldWords(digests: readonly InputDigest[], trans: TranslationBundle): TableCell {
  return digests.map(({ host, method, files, bytes, sha256, reason }) => (
    <div key={host} title={sha256 ? trans.__('SHA-256 %1', sha256) : reason}>
      {host ? trans.__('%1: ', host) : ''}
      {method === 'none' ? reason : filesWords(files, bytes, trans)}
    </div>
  ));
}

function Variables({ job, trans }: Pick<IFilesProps, 'job' | 'trans'>): JSX.Element {
  const sized = (way: string, sizes: Readonly<Record<string, number>>): TableCell[][] =>
    Object.entries(sizes).map(([name, size]) => [
      way,
      <Monospace>{name}</Monospace>,
      formatSize(size, trans)
    ]);
  const asked = job.spec.receive.filter(name => !(name in job.received));
  const way = job.ended_at === null ? trans.__('pending') : trans.__('not received');
  const rows = [
    ...sized(trans.__('sent'), job.spec.send?.sizes ?? {}),
    ...sized(trans.__('received'), job.received),
    ...asked.map((name): TableCell[] => [way, <Monospace>{name}</Monospace>, ''])
  ];
  if (rows.length === 0) {
    return (
      <p>
        {trans.__(
          'No variables were sent or received. Use %1 and %2 to name them.',
          '--send',
          '--receive'
        )}
      </p>
    );
  }
  return (
    <Table
      label={trans.__('Variables of %1', job.name)}
      head={[trans.__('Direction'), trans.__('Name'), trans.__('Size')]}
      rows={rows}
    />
  );
}

function Outputs(props: IFilesProps): JSX.Element {
  const { job, trans } = props;
  const where = ({ destination }: Output): TableCell =>
    destination ? <Monospace>{destination}</Monospace> : trans.__('the job folder');
  return (
    <Table
      label={trans.__('Outputs of %1', job.name)}
      head={[trans.__('Name'), trans.__('Path in job'), trans.__('Destination'), '']}
      rows={job.spec.outputs.map(output => [
        output.name,
        <Monospace>{output.path}</Monospace>,
        where(output),
        <OpenButton path={output.destination} {...props} />
      ])}
    />
  );
}

function Artifacts(props: IFilesProps): JSX.Element {
  const { job, trans, address } = props;
  const { artifacts } = job;
  if (artifacts.length === 0) {
    return (
      <p>
        {job.ended_at === null
          ? trans.__('Artifacts are available when the job ends.')
          : trans.__('This job has no artifacts.')}
      </p>
    );
  }
  const isHashed = artifacts.some(({ sha256 }) => sha256 !== '');
  const row = ({ name, path, size, sha256 }: Artifact): TableCell[] => [
    <span title={path}>{name}</span>,
    formatSize(size, trans),
    ...(isHashed ? [<Monospace>{sha256.slice(0, 12)}</Monospace>] : []),
    <span className="jp-smx-acts">
      <OpenButton path={path} {...props} />
      <a
        className="jp-smx-button jp-smx-link"
        href={address(name)}
        download={name.split('/').pop()}
        aria-label={trans.__('Download %1', name)}
      >
        {trans.__('Download')}
      </a>
    </span>
  ];
  const left = artifacts.length - MOST;
  return (
    <>
      <Table
        label={trans.__('Artifacts of %1', job.name)}
        head={[trans.__('Name'), trans.__('Size'), ...(isHashed ? [trans.__('SHA-256')] : []), '']}
        rows={artifacts.slice(0, MOST).map(row)}
      />
      {left > 0 ? (
        <p>{trans._n('%1 more file is not listed.', '%1 more files are not listed.', left)}</p>
      ) : null}
    </>
  );
}

function OpenButton(props: IFilesProps & { path: string }): JSX.Element | null {
  const { path, places, trans, onOpen } = props;
  const place = places[path];
  if (!onOpen || !place?.exists || place.shown_as === null) {
    return null;
  }
  const name = place.shown_as || '/';
  return (
    <TextButton
      label={trans.__('Open')}
      describedAs={trans.__('Open %1 in JupyterLab', name)}
      onClick={() => onOpen(place)}
    />
  );
}
