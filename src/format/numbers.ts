// Numbers, durations, moments, amounts and clocks as text.

import type { TranslationBundle } from '@jupyterlab/translation';

const [SMALL, LARGE] = [1e-4, 1e6];

/** Digits that a value of a metric is told with. */
export const METRIC_DIGITS = 4;

/** A value of a metric: `0.2134`, `123456`, `1.23e-5`; zeros in the place of digits would look measured. */
export function formatNumber(value: number, digits = METRIC_DIGITS): string {
  const size = Math.abs(value);
  if (size > 0 && (size < SMALL || size >= LARGE)) {
    return value.toExponential(digits - 2).replace(/\.?0+e/, 'e');
  }
  const whole = String(Math.floor(size)).length;
  return String(Number(value.toPrecision(Math.max(digits, whole))));
}

/** A running clock or countdown, of constant width: `mm:ss`, or `h:mm:ss` from one hour on; never negative. */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (n: number): string => String(n).padStart(2, '0');
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${two(m)}:${two(s)}`;
}

/** A duration for screen readers, with units in full: `7 minutes 52 seconds`. */
export function formatSpokenDuration(seconds: number, trans: TranslationBundle): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const parts: string[] = [];
  if (h > 0) {
    parts.push(trans._n('%1 hour', '%1 hours', h));
  }
  if (m > 0) {
    parts.push(trans._n('%1 minute', '%1 minutes', m));
  }
  if (h === 0 && (s > 0 || m === 0)) {
    parts.push(trans._n('%1 second', '%1 seconds', s));
  }
  return parts.join(' ');
}

/** A duration, two units at most: `850 ms`, `4.2 s`, `10 min`, `1 h 30 min`; as `format_duration` of `model/text.py`. */
export function formatDuration(seconds: number, trans: TranslationBundle): string {
  // What would be rounded up to the next unit is written in the next unit.
  const thousandths = Math.round(Math.max(0, seconds) * 1000);
  if (thousandths < 1000) {
    return trans.__('%1 ms', thousandths);
  }
  const tenths = Math.round(seconds * 10);
  if (tenths < 600) {
    return trans.__('%1 s', tenths / 10);
  }
  const whole = Math.round(seconds);
  const [d, h] = [Math.floor(whole / 86400), Math.floor((whole % 86400) / 3600)];
  const [m, s] = [Math.floor((whole % 3600) / 60), whole % 60];
  const parts = [
    d > 0 ? trans.__('%1 d', d) : '',
    h > 0 ? trans.__('%1 h', h) : '',
    m > 0 ? trans.__('%1 min', m) : '',
    s > 0 ? trans.__('%1 s', s) : ''
  ];
  return parts.filter(Boolean).slice(0, 2).join(' ');
}

/** A duration with three digits below 10 s, for that of a step: `0.4 ms`, `86.2 ms`, `1.19 s`; as `format_precise`. */
export function formatPreciseDuration(seconds: number, trans: TranslationBundle): string {
  const thousandths = Number((seconds * 1000).toPrecision(3));
  const short = Number(seconds.toPrecision(3));
  if (thousandths < 1000) {
    return trans.__('%1 ms', thousandths);
  }
  return short < 10 ? trans.__('%1 s', short) : formatDuration(seconds, trans);
}

/** An estimated duration with one or two digits: `40 s`, `3 min`, `1.5 h`, `2.5 d`; as `format_estimate`. */
export function formatApproximateDuration(seconds: number, trans: TranslationBundle): string {
  if (seconds < 9.5) {
    return trans.__('%1 s', Math.max(1, Math.round(seconds)));
  }
  if (seconds < 57.5) {
    return trans.__('%1 s', 5 * Math.round(seconds / 5));
  }
  if (seconds < 5370) {
    return trans.__('%1 min', Math.max(1, Math.round(seconds / 60)));
  }
  const hours = Math.round(seconds / 1800) / 2;
  return hours < 36 ? trans.__('%1 h', hours) : trans.__('%1 d', Math.round(seconds / 43200) / 2);
}

const HALF_A_DAY = 43200;

/**
 * A moment (seconds since the epoch) by the clock of this browser, as `format_moment` of `model/text.py` writes it:
 * `2026-10-02 14:05:07`. Within 12 hours of `now` only the time: `14:05`; further away `2026-10-02 14:05`.
 */
export function formatMoment(at: number, now?: number): string {
  const date = new Date(at * 1000);
  const two = (n: number): string => String(n).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two);
  if (now === undefined) {
    return `${day} ${time.join(':')}`;
  }
  const minute = time.slice(0, 2).join(':');
  return Math.abs(at - now) < HALF_A_DAY ? minute : `${day} ${minute}`;
}

/** An amount of US dollars; what rounds to nothing is still not free. */
export function formatMoney(dollars: number): string {
  return dollars > 0 && dollars < 0.005 ? '< $0.01' : `$${dollars.toFixed(2)}`;
}

/** Hours of a node; less than a hundredth of one is shown as `< 0.01`. */
export function formatNodeHours(hours: number, trans: TranslationBundle): string {
  return trans.__('%1 node hours', hours > 0 && hours < 0.005 ? '< 0.01' : hours.toFixed(2));
}

/** Dollars as a bill has them: cents, or three digits that count below ten of them, and never in powers of ten. */
export function formatExactMoney(dollars: number): string {
  const size = Number(dollars.toPrecision(3));
  const places = size > 0 && size < 0.1 ? Math.min(20, 2 - Math.floor(Math.log10(size))) : 2;
  return `$${dollars.toFixed(places)}`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const STEP = 1024;

/** Bytes as an amount of the binary unit that suits it, and the name of the unit. */
export function toBinaryUnit(bytes: number): [number, string] {
  let [amount, step] = [bytes, 0];
  while (amount >= STEP && step < UNITS.length - 1) {
    amount /= STEP;
    step++;
  }
  return [amount, UNITS[step]];
}

/** Bytes in binary units, as `format_size` of `model/text.py` writes them: `812 B`, `1.5 GiB`. */
export function formatSize(bytes: number, trans: TranslationBundle): string {
  const [amount, unit] = toBinaryUnit(bytes);
  // Python rounds a half to the even digit, and `toFixed` rounds it up: they differ at a quarter only.
  const even = amount % 1 === 0.25 ? Math.floor(amount) + 0.2 : amount;
  return trans.__('%1 %2', unit === 'B' ? Math.round(amount) : even.toFixed(1), unit);
}
