// The way of a job to its first line, in stages: pure functions over the moments that its record has.

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatDuration } from '../../format/numbers';

export type StartStage = 'submit' | 'queue' | 'environment' | 'hosts' | 'process' | 'firstLine';

export interface ITimedStage {
  stage: StartStage;
  seconds: number;
}

/** The moments in their order, each with the stage that it ends. */
const ENDS: readonly (readonly [string, StartStage])[] = [
  ['accepted', 'submit'],
  ['building', 'queue'],
  ['built', 'environment'],
  ['committed', 'queue'],
  ['sent', 'hosts'],
  ['received', 'hosts'],
  ['awake', 'process'],
  ['first_line', 'firstLine']
];

/**
 * The stages that are over, in their order; `timings` are seconds since the epoch by name, of different clocks.
 */
export function timedStages(timings: Readonly<Record<string, number>>): ITimedStage[] {
  const known = ENDS.filter(([moment]) => moment in timings);
  const stages = new Map<StartStage, number>();
  let before = timings.magic ?? timings.accepted;
  for (const [moment, stage] of known) {
    const at = timings[moment];
    // Clocks of two machines may differ by more than a short stage takes.
    stages.set(stage, (stages.get(stage) ?? 0) + Math.max(0, at - before));
    before = Math.max(before, at);
  }
  return [...stages].map(([stage, seconds]) => ({ stage, seconds }));
}

/** A stage with its time, as `hosts 1.9 s`. */
export function formatStage({ stage, seconds }: ITimedStage, trans: TranslationBundle): string {
  const time = formatDuration(seconds, trans);
  switch (stage) {
    case 'submit':
      return trans.__('submit %1', time);
    case 'queue':
      return trans.__('queue %1', time);
    case 'environment':
      return trans.__('environment %1', time);
    case 'hosts':
      return trans.__('hosts %1', time);
    case 'process':
      return trans.__('inputs and startup %1', time);
    case 'firstLine':
      return trans.__('first line %1', time);
  }
}
