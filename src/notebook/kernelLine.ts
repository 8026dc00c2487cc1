// Runs a line in the kernel of the notebook that contains a widget, where this server does not have the kernel's jobs.

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import { KernelMessage } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';

/** A kernel, as far as lines are run in it. */
export type LineKernel = Pick<Kernel.IKernelConnection, 'requestExecute' | 'status'>;

/** Return the kernel of the document around a widget; null outside of one, or while it has none. */
export function findKernel(widget: Widget): LineKernel | null {
  for (let at: Widget | null = widget; at !== null; at = at.parent) {
    const { sessionContext } = at as Widget & { sessionContext?: ISessionContext };
    if (sessionContext) {
      return sessionContext.session?.kernel ?? null;
    }
  }
  return null;
}

/** Run a line outside of the notebook's history, and return what it prints. A kernel runs it after its cells. */
export async function runLine(kernel: LineKernel, line: string): Promise<string> {
  const future = kernel.requestExecute({ code: line, store_history: false, stop_on_error: false });
  let text = '';
  future.onIOPub = message => {
    text += printedText(message);
  };
  await future.done;
  return text.trim();
}

function printedText(message: KernelMessage.IIOPubMessage): string {
  if (KernelMessage.isStreamMsg(message)) {
    return message.content.text;
  }
  if (KernelMessage.isErrorMsg(message)) {
    return `${message.content.ename}: ${message.content.evalue}\n`;
  }
  if (KernelMessage.isDisplayDataMsg(message) || KernelMessage.isExecuteResultMsg(message)) {
    const plain = message.content.data['text/plain'];
    return typeof plain === 'string' ? `${plain}\n` : '';
  }
  return '';
}
