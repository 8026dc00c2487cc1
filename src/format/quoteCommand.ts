// A command as one line for a shell: to type in a terminal, and to show.

/** Quote the words of a command as one line for a shell, whatever characters they have. */
export function quoteCommand(words: readonly string[]): string {
  return words.map(quoted).join(' ');
}

const PLAIN = /^[\w@%+=:,./-]+$/;
/** Characters that a terminal or its line editor would interpret as keys. */
const KEYS = /[\x00-\x1f\x7f]/; // eslint-disable-line no-control-regex

function quoted(word: string): string {
  if (PLAIN.test(word)) {
    return word;
  }
  return KEYS.test(word) ? `"$(printf %b '${escaped(word)}')"` : `'${word.replace(/'/g, `'"'"'`)}'`;
}

function escaped(word: string): string {
  // eslint-disable-next-line no-control-regex
  return word.replace(/[\x00-\x1f\x7f'\\]/g, key => `\\0${octal(key)}`);
}

function octal(key: string): string {
  return key.charCodeAt(0).toString(8).padStart(3, '0');
}
