import { quoteCommand } from '../../format/quoteCommand';

/** Part of Node, whose types the sources do not have. */
const { execFileSync } = jest.requireActual<{
  execFileSync: (file: string, words: string[], how: { encoding: 'utf8' }) => string;
}>('child_process');

describe('the words of a command', () => {
  const odd = [
    "it's",
    '"',
    '$HOME `id` \\ !x',
    '',
    'é 🦆',
    '#',
    '~',
    '*',
    'a\tb',
    'c\\d\n\'e\x03"'
  ];

  it.each(['sh', 'bash'])('are what %s reads of the line, whatever is in them', shell => {
    const script = `printf '%s|' ${quoteCommand(odd)}`;
    const read = execFileSync(shell, ['-c', script], { encoding: 'utf8' });
    expect(read).toBe(odd.map(word => `${word}|`).join(''));
  });

  it('have no character that a terminal takes for a key, and plain words stay as they are', () => {
    // eslint-disable-next-line no-control-regex
    expect(quoteCommand(odd)).not.toMatch(/[\x00-\x1f\x7f]/);
    expect(quoteCommand(['docker', '--host=unix:///run/d.sock', 'exec', '-it'])).toBe(
      'docker --host=unix:///run/d.sock exec -it'
    );
  });
});
