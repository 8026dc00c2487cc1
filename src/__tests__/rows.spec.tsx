import { nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { Filter } from '../filter';
import { CommandIDs } from '../ids';
import { JobsPanel } from '../sidebar';
import { listed, NOTHING } from '../state';
import { completed, job, pool } from './examples';
import { addedCommands, button, FakeModel, layOut, rendered } from './fakes';

const trans = nullTranslator.load('jupyter_smx');

beforeAll(layOut);

describe('the filter', () => {
  const names = (text: string): string[] => {
    const filter = new Filter();
    filter.text = text;
    const failed = completed(2, { status: 'Failed', failure_type: 'KeyError', engine: 'ray' });
    return filter.jobs([job(1), failed]).map(one => one.id);
  };

  it('keeps what has each of its words, in any case and order', () => {
    expect(names('')).toEqual(['job-1', 'job-2']);
    expect(names('  ')).toEqual(['job-1', 'job-2']);
    expect(names('keyerror DIGITS')).toEqual(['job-2']);
    expect(names('inprogress')).toEqual(['job-1']);
    expect(names('ray inprogress')).toEqual([]);
  });

  it('looks at pools too', () => {
    const filter = new Filter();
    filter.text = 'slurm';
    const pools = [pool(1), pool(2, { engine: 'slurm' })];
    expect(filter.pools(pools).map(one => one.id)).toEqual(['pool-2']);
  });
});

describe('the rows', () => {
  let model: FakeModel;
  let panel: JobsPanel;
  let executed: [string, unknown][];

  beforeEach(() => {
    model = new FakeModel();
    const added = addedCommands();
    executed = added.executed;
    panel = new JobsPanel({ model, commands: added.commands, trans });
    Widget.attach(panel, document.body);
  });

  afterEach(() => panel.dispose());

  function list(name: string): HTMLElement {
    const found = panel.node.querySelector<HTMLElement>(`ul[aria-label="${name}"]`);
    expect(found).not.toBeNull();
    return found as HTMLElement;
  }

  function press(key: string): void {
    document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  }

  async function show(count: number): Promise<HTMLElement> {
    const jobs = Array.from({ length: count }, (_, i) => completed(i));
    model.become(listed(NOTHING, jobs, [], 1, 'job-0').state);
    await rendered();
    return list('Finished jobs');
  }

  it('that are drawn of ten thousand are a few, and each says which of them it is', async () => {
    const rows = (await show(10_000)).querySelectorAll('li');
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.length).toBeLessThan(40);
    expect(rows[0].getAttribute('aria-setsize')).toBe('10000');
    expect(rows[0].getAttribute('aria-posinset')).toBe('1');
    expect(rows[0].dataset.job).toBe('job-9999');
  });

  it('ask for the next page only when the last of them comes into sight', async () => {
    await show(10_000);
    expect(model.more).not.toHaveBeenCalled();
    await show(3);
    expect(model.more).toHaveBeenCalled();
  });

  it('have one stop for the Tab key, and arrows move it', async () => {
    const rows = await show(3);
    const stops = (): (string | undefined)[] =>
      [...rows.querySelectorAll<HTMLElement>('li[tabindex="0"]')].map(row => row.dataset.job);
    expect(stops()).toEqual(['job-2']);
    rows.querySelector('li')?.focus();
    press('ArrowDown');
    await rendered();
    expect(stops()).toEqual(['job-1']);
    expect((document.activeElement as HTMLElement).dataset.job).toBe('job-1');
    press('End');
    await rendered();
    press('ArrowDown');
    await rendered();
    expect((document.activeElement as HTMLElement).dataset.job).toBe('job-0');
    expect(button(rows, 'Delete train-digits-0').tabIndex).toBe(0);
    expect(button(rows, 'Delete train-digits-2').tabIndex).toBe(-1);
  });

  it('are deleted and stopped with the key for that', async () => {
    model.become(listed(NOTHING, [job(0), completed(1)], [], 1).state);
    await rendered();
    list('Running jobs').querySelector('li')?.focus();
    press('Delete');
    list('Finished jobs').querySelector('li')?.focus();
    press('Delete');
    expect(executed).toEqual([
      [CommandIDs.stopJob, 'job-0'],
      [CommandIDs.deleteJob, 'job-1']
    ]);
  });

  it('hand the focus on when the row that had it goes away', async () => {
    const rows = await show(2);
    button(rows, 'Delete train-digits-1').focus();
    model.become(listed(NOTHING, [completed(0)], [], 2).state);
    await rendered();
    expect((document.activeElement as HTMLElement).dataset.job).toBe('job-0');
  });

  it('are narrowed by what is typed, and say so when nothing is left', async () => {
    await show(2);
    const field = panel.node.querySelector<HTMLInputElement>('input[type=search]');
    const type = async (text: string): Promise<void> => {
      const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set;
      set?.call(field, text);
      field?.dispatchEvent(new Event('input', { bubbles: true }));
      await rendered();
    };
    await type('digits-1');
    expect(list('Finished jobs').querySelectorAll('li')).toHaveLength(1);
    await type('nobody');
    expect(panel.node.textContent).toContain('Nothing here matches the filter.');
    expect(field?.value).toBe('nobody');
  });
});
