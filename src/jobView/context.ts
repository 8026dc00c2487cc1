// What the parts of one job's view share.

import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { IHistorySource } from '../charts';
import type { IJobsModel } from '../tokens';
import type { ICodeLocator } from './codeLocator';
import type { JobRecord } from './jobRecord';
import type { IJobSource } from './jobSource';

export interface IJobViewContext {
  /** What is known of its name before the record is here. */
  name: string;
  record: JobRecord;
  source: IJobSource;
  /** Where its charts come from. */
  history: IHistorySource;
  model: IJobsModel;
  commands: CommandRegistry;
  codeLocator: ICodeLocator;
  languages: IEditorLanguageRegistry | null;
  trans: TranslationBundle;
  close: () => void;
}
