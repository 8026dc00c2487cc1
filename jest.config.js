const jestJupyterLab = require('@jupyterlab/testutils/lib/jest-config');

// Packages that ship as ES modules and that Jest must translate.
const esModules = [
  '@codemirror',
  '@jupyter/',
  '@jupyterlab/',
  '@microsoft/',
  'exenv-es6',
  'lib0',
  'nanoid',
  'vscode-ws-jsonrpc',
  'y-protocols',
  'y-websocket',
  'yjs'
].join('|');

module.exports = {
  ...jestJupyterLab(__dirname),
  automock: false,
  collectCoverageFrom: [
    'src/**/*.{ts,tsx}',
    '!src/**/*.d.ts',
    '!src/_types.ts',
    '!src/**/__tests__/**'
  ],
  coverageReporters: ['lcov', 'text'],
  modulePathIgnorePatterns: [
    '<rootDir>/.venv/',
    '<rootDir>/build/',
    '<rootDir>/jupyter_smx/',
    '<rootDir>/lib/',
    '<rootDir>/ui-tests/'
  ],
  reporters: ['default'],
  testRegex: 'src/.*/.*.spec.ts[x]?$',
  transformIgnorePatterns: [`/node_modules/(?!${esModules}).+`]
};
