// Sizes in binary units: tests/model/test_memory_sizes.py reads the same table, so that Python and TypeScript agree.

import { nullTranslator } from '@jupyterlab/translation';

import { formatSize } from '../../format/numbers';
import table from './sizes.json';

it.each(table as [number, string][])('%d bytes are written as %s', (bytes, words) => {
  expect(formatSize(bytes, nullTranslator.load('jupyter_smx'))).toBe(words);
});
