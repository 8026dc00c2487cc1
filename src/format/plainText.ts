// Text of others, such as names and messages of exceptions, made safe to show: without control characters and not too long.

// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Characters that change the direction of the text behind them, or have no width. */
const DIRECTIONS = /[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Half of a character at the end of a text, as of an emoji that was cut. */
const HALF = /[\ud800-\udbff]$/;

/** Characters of a name, which may be in a notebook from elsewhere. */
export const NAME_LIMIT = 200;

/** Characters of a sentence of the server, which may quote others. */
export const TEXT_LIMIT = 1200;

/** Return `text` without control characters and marks of direction, cut after `limit` characters. */
export function plainText(text: string, limit: number): string {
  const plain = text.replace(CONTROLS, '').replace(DIRECTIONS, '');
  return plain.length > limit ? `${plain.slice(0, limit - 1).replace(HALF, '')}…` : plain;
}
