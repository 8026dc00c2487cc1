import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { LogView } from '../log';
import type { ILogPart } from '../log/source';
import { LogText, LONGEST } from '../log/text';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('the text of a log', () => {
  it('is whole where a character came in two parts', () => {
    const log = new LogText();
    const snow = bytes('snow ☃\n');
    log.add(snow.slice(0, 6));
    log.add(snow.slice(6));
    expect(log.text).toBe('snow ☃\n');
  });

  it('shows of a bar what a terminal shows in the end, and no orders to it', () => {
    const log = new LogText();
    log.add(bytes('10%\r20%\r'));
    expect(log.text).toBe('20%');
    log.add(bytes('30%\r\n\u001b[31mred\u001b[0m\nlast'));
    expect(log.text).toBe('30%\nred\nlast');
  });

  it('keeps the end of what is too long', () => {
    const log = new LogText();
    log.add(bytes('a'.repeat(LONGEST) + '\n'));
    log.add(bytes('end\n'));
    expect(log.text.length).toBe(LONGEST);
    expect(log.text.endsWith('a\nend\n')).toBe(true);
  });
});

describe('the view of a log', () => {
  let asked: number[];
  let answer: (part: ILogPart) => void;
  let signals: AbortSignal[];
  let page: EventTarget & { visibilityState: DocumentVisibilityState };
  let view: LogView;

  beforeEach(() => {
    asked = [];
    signals = [];
    page = Object.assign(new EventTarget(), { visibilityState: 'visible' as const });
    view = new LogView({
      source: {
        read: ({ offset }, signal) => {
          asked.push(offset ?? 0);
          signals.push(signal);
          return new Promise(resolve => (answer = resolve));
        },
        find: () => Promise.reject(new Error('not asked')),
        address: () => ''
      },
      name: 'digits-1',
      page: page as never,
      trans: nullTranslator.load('jupyter_smx')
    });
    Widget.attach(view, document.body);
  });

  afterEach(() => view.dispose());

  async function answered(text: string, isWhole = false, attempt = 1): Promise<void> {
    const start = asked[asked.length - 1];
    const next = start + text.length;
    const which = { host: 'algo-1', hosts: ['algo-1'], attempt, attempts: attempt };
    answer({ bytes: bytes(text), start, next, total: next, isFinal: isWhole, ...which });
    await new Promise(resolve => setTimeout(resolve, 0));
  }

  const shown = (): string | null | undefined => view.node.querySelector('[role=log]')?.textContent;

  it('asks on from where it was until the job has ended', async () => {
    await answered('one\n');
    await answered('two\n', true);
    expect(asked).toEqual([0, 4]);
    expect(shown()).toBe('one\ntwo\n');
    expect(view.node.textContent).toContain('The job has ended.');
  });

  it('reads the log of a run that began again from its own beginning', async () => {
    await answered('lost host');
    await answered('n\n', true, 2);
    await answered('again\n', true, 2);
    expect(asked).toEqual([0, 9, 0]);
    expect(shown()).toBe('lost host\nRun 2 of the job begins here.\nagain\n');
  });

  it('asks nothing while nobody sees it, and goes on afterwards', async () => {
    await answered('one\n');
    view.hide();
    expect(signals[signals.length - 1].aborted).toBe(true);
    const before = asked.length;
    await answered('lost\n');
    expect(asked.length).toBe(before);
    view.show();
    expect(asked[asked.length - 1]).toBe(4);
    page.visibilityState = 'hidden';
    page.dispatchEvent(new Event('visibilitychange'));
    expect(signals[signals.length - 1].aborted).toBe(true);
    expect(shown()).toBe('one\n');
  });
});
