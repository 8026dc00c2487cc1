// The words of this extension in the language of the page.

import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { nullTranslator } from '@jupyterlab/translation';

export function loadTranslation(translator: ITranslator | null): TranslationBundle {
  return (translator ?? nullTranslator).load('jupyter_smx');
}
