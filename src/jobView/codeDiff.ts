// The code of a job beside the code of its cell: what both have in common is the cell without its magic's lines.

import type { JobSpec } from '../_types';

/** Where the code of a job comes from: a notebook's cell, a file, or what a program made. */
export type CodeOrigin = 'cell' | 'file' | 'program';

export function codeOrigin({ source, filename }: Pick<JobSpec, 'source' | 'filename'>): CodeOrigin {
  if (filename && !filename.startsWith('<')) {
    return 'file';
  }
  // Magics push the code down by their own lines, so that line numbers are those of the notebook.
  return source.startsWith('\n') ? 'cell' : 'program';
}

export interface INumberedCode {
  code: string;
  /** The number of its first line, as tracebacks count. */
  first: number;
}

/** Code without the empty lines before and after it. */
export function trimBlankLines(source: string): INumberedCode {
  const first = 1 + (/^\n*/.exec(source)?.[0].length ?? 0);
  return { code: source.replace(/^\n+/, '').replace(/\s+$/, ''), first };
}

/** What a cell gives its magic to run: everything under the magic's line and the lines that continue it. */
export function stripMagic(cell: string): INumberedCode {
  const lines = cell.replace(/\r\n?/g, '\n').split('\n');
  let taken = lines.findIndex(line => line.trim() !== '');
  if (taken < 0 || !lines[taken].startsWith('%%')) {
    return trimBlankLines(cell);
  }
  while (taken < lines.length && lines[taken].trimEnd().endsWith('\\')) {
    taken++;
  }
  return trimBlankLines('\n'.repeat(taken + 1) + lines.slice(taken + 1).join('\n'));
}

/** Of some cells the one that a job came from: by its id, or the only one with the same code. */
export function findCell<T extends { id?: string; source: string }>(
  cells: readonly T[],
  spec: Pick<JobSpec, 'cell_id' | 'source'>
): T | null {
  if (spec.cell_id) {
    return cells.find(cell => cell.id === spec.cell_id) ?? null;
  }
  const { code } = trimBlankLines(spec.source);
  const same = cells.filter(cell => stripMagic(cell.source).code === code);
  return same.length === 1 ? same[0] : null;
}

/** Milliseconds for finding the shortest diff; very long texts that differ everywhere are told one after the other. */
const PATIENCE_MS = 500;

/** Lines of a unified diff, empty where nothing differs; the library is loaded with the first one. */
export async function diffCode(before: INumberedCode, after: INumberedCode): Promise<string[]> {
  if (before.code === after.code) {
    return [];
  }
  const { structuredPatch } = await import('diff');
  const texts = [`${before.code}\n`, `${after.code}\n`] as const;
  const options = { context: 3, timeout: PATIENCE_MS };
  const patch = structuredPatch('', '', ...texts, undefined, undefined, options);
  if (patch === undefined) {
    return [...signed('-', before.code), ...signed('+', after.code)];
  }
  const place = (sign: string, start: number, first: number, count: number): string =>
    `${sign}${start + first - 1},${count}`;
  return patch.hunks.flatMap(hunk => [
    `@@ ${place('-', hunk.oldStart, before.first, hunk.oldLines)} ${place('+', hunk.newStart, after.first, hunk.newLines)} @@`,
    ...hunk.lines
  ]);
}

function signed(sign: string, code: string): string[] {
  return code.split('\n').map(line => sign + line);
}
