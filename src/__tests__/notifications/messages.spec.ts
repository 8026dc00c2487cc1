import { nullTranslator } from '@jupyterlab/translation';

import {
  formatDesktopNotification,
  formatEnded,
  formatEndedWhileAway,
  formatPoolPrompt,
  toastType
} from '../../notifications/messages';
import {
  duePools,
  LEAD_SECONDS,
  promptKey,
  secondsToNextChange
} from '../../notifications/poolDeadlines';
import { PromptStore } from '../../notifications/promptStore';
import { SeenStore } from '../../notifications/seenStore';
import type { job } from '../fixtures/examples';
import { completed, pool } from '../fixtures/examples';
import { FakeStorage, storageOver } from '../fixtures/fakeBrowser';

const trans = nullTranslator.load('jupyter_smx');

const failed = (number: number, line: number | null = 14): ReturnType<typeof job> =>
  completed(number, {
    status: 'Failed',
    secondary_status: 'Failed',
    failure_type: 'KeyError',
    failure_line: line
  });
const stopped = completed(9, { status: 'Stopped', secondary_status: 'Stopped' });

describe('the sentence about jobs that ended', () => {
  it('is about the one, or counts the outcomes', () => {
    expect(formatEnded([completed(1)], trans)).toBe('train-digits-1 completed after 1 min 40 s');
    expect(formatEnded([completed(1), completed(2), failed(3), stopped], trans)).toBe(
      '4 jobs ended: 2 finished, 1 failed at line 14, 1 stopped'
    );
    expect(toastType([completed(1), failed(2)])).toBe('error');
    expect(toastType([completed(1), stopped])).toBe('success');
    expect(toastType([stopped])).toBe('info');
    expect(toastType([stopped, stopped])).toBe('info');
  });

  it('names the array whose tasks they were', () => {
    const array = { id: 'a', name: 'sweep-1', index: 0, size: 3, title: trans.__('sweep lr') };
    const rest = { label: '', values: {}, max_concurrent: 0 };
    const tasks = [1, 2].map(number => completed(number, { array: { ...array, ...rest } }));
    expect(formatEnded(tasks, trans)).toBe('sweep lr: 2 jobs ended: 2 finished');
    expect(formatEnded([...tasks, completed(3)], trans)).toBe('3 jobs ended: 3 finished');
  });

  it('sums up what happened while the page was hidden', () => {
    expect(formatEndedWhileAway([completed(1), completed(2), failed(3)], false, trans)).toBe(
      'While you were away: 2 finished, 1 failed at line 14'
    );
    expect(formatEndedWhileAway([failed(1, 3), failed(2, 4)], false, trans)).toBe(
      'While you were away: 2 failed'
    );
    expect(formatEndedWhileAway([failed(1, null)], true, trans)).toBe(
      'While you were away: at least 1 failed'
    );
    expect(formatEndedWhileAway([failed(1)], false, trans)).toBe(
      'While you were away: train-digits-1: Failed: KeyError, line 14'
    );
  });

  it('has no message, no code and no value of a job on the desktop', () => {
    const secret = completed(1, { message: 'KeyError: password=hunter2', metrics: { hunter: 2 } });
    expect(JSON.stringify(formatDesktopNotification([secret], trans))).not.toContain('hunter');
    expect(formatDesktopNotification([secret], trans).body).toBe('local × 1');
    expect(
      formatDesktopNotification(
        [1, 2, 3, 4, 5].map(number => completed(number)),
        trans
      ).body
    ).toBe('train-digits-3, train-digits-4, train-digits-5 and 2 more');
  });
});

describe('the question about a pool', () => {
  const dear = pool(1, {
    expires_at: 1120,
    price_per_hour: 0.23,
    jobs_served: 9,
    saved_seconds: 780
  });

  it('says how long it stays, which jobs can use it, and what more of it costs', () => {
    expect(formatPoolPrompt(dear, 1000, 900, '14:05', trans)).toBe(
      'Pool local × 1 expires in 2 min, at 14:05. 9 jobs used it, 13 min saved. Another 15 min: $0.06.'
    );
    const free = pool(1, { expires_at: 1030, price_per_hour: 0 });
    expect(formatPoolPrompt(free, 1000, 900, '14:05', trans)).toBe(
      'Pool local × 1 expires in 30 s, at 14:05. 1 job used it. Another 15 min: free.'
    );
  });

  it('leaves out an unknown price, and fits into a message of JupyterLab', () => {
    const wide = pool(1, { instances: 'ml.p3.2xlarge × 1 + '.repeat(9), expires_at: 1120 });
    const sentence = formatPoolPrompt(wide, 1000, 900, '14:05', trans);
    expect(sentence).not.toContain('cost');
    expect(sentence.length).toBeLessThan(140);
  });

  it('is due from two minutes before the end until the end', () => {
    const one = pool(1, { idle_since: 1000, expires_at: 1600 });
    expect(duePools([one], 1600 - LEAD_SECONDS - 1)).toEqual([]);
    expect(duePools([one], 1600 - LEAD_SECONDS)).toEqual([one]);
    expect(duePools([one], 1600)).toEqual([]);
    expect(secondsToNextChange([one], 1000)).toBe(480);
    expect(secondsToNextChange([one], 1500)).toBe(100);
    expect(secondsToNextChange([one], 1600)).toBeNull();
  });

  it('is not asked for pools in use and for those with a keep-alive below three minutes', () => {
    const brief = pool(1, { idle_since: 1000, expires_at: 1179 });
    const used = pool(2, { state: 'InUse', expires_at: null });
    expect(duePools([brief, used], 1100)).toEqual([]);
    expect(secondsToNextChange([brief, used], 1000)).toBeNull();
    expect(duePools([pool(3, { idle_since: 1000, expires_at: 1180 })], 1100)).toHaveLength(1);
  });

  it('is a new one when the end was moved', () => {
    expect(promptKey(pool(1))).not.toBe(promptKey(pool(1, { expires_at: 3000 })));
  });
});

describe('what was told', () => {
  it('has nothing that ended before the first visit', () => {
    const seenStore = new SeenStore(new FakeStorage(), 'k');
    seenStore.begin(1200);
    seenStore.begin(9999);
    const later = completed(3, { ended_at: 1300 });
    expect(seenStore.unseen([completed(1), later])).toEqual([later]);
  });

  it('is shared by the tabs of a browser, and one by one only for a minute', () => {
    const memory = new FakeStorage();
    const [here, there] = [new SeenStore(memory, 'k'), new SeenStore(memory, 'k')];
    here.begin(1000);
    here.add(['job-1'], 1101);
    expect(there.unseen([completed(1)])).toEqual([]);
    expect(there.seenTest()('job-1', 1101)).toBe(true);
    expect(there.seenTest()('job-2', 1102)).toBe(false);
    here.markAllSeen(1200);
    expect(there.seenTest()('job-2', 1102)).toBe(true);
    expect(memory.getItem('k')).not.toContain('job-1');
  });

  it('survives foreign data in the store, and a store that is full', () => {
    const storage = new FakeStorage();
    storage.setItem('k', '{"until": "soon"}');
    const told = new SeenStore(storageOver(storage), 'k');
    storage.isFull = true;
    told.begin(1000);
    expect(told.unseen([completed(1)])).toEqual([completed(1)]);
    told.add(['job-1'], 1101);
    expect(told.unseen([completed(1)])).toEqual([]);
  });
});

describe('the memory', () => {
  it('keeps for this page what the browser has no room for, until there is room', () => {
    const storage = new FakeStorage();
    const memory = storageOver(storage);
    storage.isFull = true;
    memory.setItem('k', 'here');
    expect([memory.getItem('k'), storage.getItem('k')]).toEqual(['here', null]);
    storage.isFull = false;
    memory.setItem('k', 'now there');
    storage.setItem('k', 'by another tab');
    expect(memory.getItem('k')).toBe('by another tab');
  });

  it('is one of this page if the browser denies access', () => {
    const memory = storageOver(null);
    expect(memory.getItem('k')).toBeNull();
    memory.setItem('k', 'here');
    expect(memory.getItem('k')).toBe('here');
  });
});

describe('answers', () => {
  it('hold until the question is over', () => {
    const memory = new FakeStorage();
    const [here, there] = [new PromptStore(memory, 'k'), new PromptStore(memory, 'k')];
    here.add('a@2000', 2000, 1900);
    expect(there.has('a@2000')).toBe(true);
    here.add('b@3000', 3000, 2001);
    expect(there.has('a@2000')).toBe(false);
    expect(there.has('b@3000')).toBe(true);
  });

  it('hold in this page if the browser has no room for them', () => {
    const storage = new FakeStorage();
    storage.isFull = true;
    const promptStore = new PromptStore(storageOver(storage), 'k');
    promptStore.add('a@2000', 2000, 1900);
    expect(promptStore.has('a@2000')).toBe(true);
  });
});
