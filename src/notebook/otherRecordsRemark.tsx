// What a card says of a job that its kernel keeps where this server has no records, as behind a kernel gateway.

import type { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';

import { errorText } from '../api/errors';
import { TextButton } from '../components/textButton';
import { plainText } from '../format/plainText';
import type { LineKernel } from './kernelLine';
import { runLine } from './kernelLine';

/** Characters of what the kernel printed last. */
const LIMIT = 20_000;

interface IOtherRecordsRemarkProps {
  name: string;
  /** The kernel of the notebook; null if it has none now. */
  kernel: LineKernel | null;
  trans: TranslationBundle;
}

/** Say that the job is not on this server, and let its kernel do what the usual buttons would. */
export function OtherRecordsRemark({ name, kernel, trans }: IOtherRecordsRemarkProps): JSX.Element {
  const stop = `%smx stop ${name}`;
  const log = `%smx logs ${name}`;
  return (
    <div className="jp-smx-says">
      <p>
        {trans.__(
          'This job is not on this Jupyter server: its kernel keeps its jobs on another machine or in another data folder. In a cell of this notebook, %1 stops it and %2 shows its log.',
          stop,
          log
        )}
      </p>
      {kernel === null ? null : (
        <KernelButtons kernel={kernel} stop={stop} log={log} trans={trans} />
      )}
    </div>
  );
}

interface IKernelButtonsProps {
  kernel: LineKernel;
  stop: string;
  log: string;
  trans: TranslationBundle;
}

function KernelButtons({ kernel, stop, log, trans }: IKernelButtonsProps): JSX.Element {
  const [said, setSaid] = useState('');
  const run = async (line: string): Promise<void> => {
    setSaid(
      kernel.status === 'busy'
        ? trans.__('The kernel runs %1 after its cells.', line)
        : trans.__('The kernel runs %1.', line)
    );
    try {
      const printed = await runLine(kernel, line);
      setSaid(printed || trans.__('%1 printed nothing.', line));
    } catch (reason) {
      setSaid(trans.__('%1 was not run: %2', line, errorText(reason)));
    }
  };
  return (
    <>
      <p>
        <TextButton
          label={trans.__('Stop')}
          describedAs={trans.__('Stop: run %1 in the kernel', stop)}
          onClick={() => void run(stop)}
        />{' '}
        <TextButton
          label={trans.__('Log')}
          describedAs={trans.__('Log: run %1 in the kernel', log)}
          onClick={() => void run(log)}
        />
      </p>
      {said ? (
        <pre className="jp-smx-printed" role="log" dir="auto">
          {plainText(said.slice(-LIMIT), LIMIT)}
        </pre>
      ) : null}
    </>
  );
}
