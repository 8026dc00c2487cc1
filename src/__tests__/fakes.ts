// A model that shows what a test says, commands that only note who was asked, and what waits for React.

import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';

import type { JobSummary, PoolSummary } from '../_types';
import { CommandIDs } from '../ids';
import type { IState } from '../state';
import { NOTHING } from '../state';
import type { IJobsModel } from '../tokens';

export class FakeModel implements IJobsModel {
  state: IState = NOTHING;
  changed = new Signal<this, IState>(this);
  ended = new Signal<this, JobSummary[]>(this);
  now = (): number => 1134;
  refresh = jest.fn(() => Promise.resolve());
  catchUp = jest.fn(() => Promise.resolve());
  wake = jest.fn(() => Promise.resolve());
  begin = jest.fn(() => Promise.resolve());
  more = jest.fn(() => Promise.resolve());
  stop = jest.fn((_job: Pick<JobSummary, 'id'>) => Promise.resolve());
  interrupt = jest.fn((_job: Pick<JobSummary, 'id'>) => Promise.resolve());
  rerun = jest.fn((job: Pick<JobSummary, 'id'>) => Promise.resolve(`${job.id}-again`));
  stopArray = jest.fn((_id: string) => Promise.resolve());
  remove = jest.fn((_job: Pick<JobSummary, 'id'>) => Promise.resolve());
  extend = jest.fn(() => Promise.resolve());
  release = jest.fn((_pool: PoolSummary) => Promise.resolve());

  become(state: IState): void {
    this.state = state;
    this.changed.emit(state);
  }
}

export function addedCommands(without: readonly string[] = []): {
  commands: CommandRegistry;
  executed: [string, unknown][];
} {
  const commands = new CommandRegistry();
  const executed: [string, unknown][] = [];
  for (const id of Object.values(CommandIDs).filter(one => !without.includes(one))) {
    commands.addCommand(id, {
      describedBy: { args: { type: 'object' } },
      execute: args => executed.push([id, args.id])
    });
  }
  return { commands, executed };
}

/** Let Lumino's messages and React's work be done. */
export async function rendered(): Promise<void> {
  for (let i = 0; i < 8; i++) {
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
}

export function button(node: HTMLElement, name: string): HTMLButtonElement {
  const found = [...node.querySelectorAll('button')].find(
    one => (one.getAttribute('aria-label') ?? one.textContent) === name
  );
  if (!found) {
    throw new Error(`There is no button ${name} in ${node.innerHTML}`);
  }
  return found;
}

/** Let jsdom, which lays nothing out, give a section 600 pixels and everything in it 50. */
export function layOut(): void {
  const heightOf = {
    configurable: true,
    get(this: Element): number {
      return this.classList.contains('jp-smx-section') ? 600 : 50;
    }
  };
  const width = { configurable: true, get: (): number => 280 };
  Object.defineProperties(HTMLElement.prototype, { offsetHeight: heightOf, offsetWidth: width });
  Object.defineProperties(Element.prototype, { clientHeight: heightOf, clientWidth: width });
}
