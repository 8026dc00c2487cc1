import eslint from '@eslint/js';
import jupyter from '@jupyter/eslint-plugin';
import prettier from 'eslint-config-prettier';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  {
    ignores: [
      '**/*.d.ts',
      '**/node_modules/**',
      '.dockerd/**',
      '.venv/**',
      'build/**',
      'coverage/**',
      'dist/**',
      'jupyter_smx/**',
      'lib/**',
      'src/_types.ts',
      'ui-tests/**'
    ]
  },
  eslint.configs.recommended,
  {
    files: ['src/**/*.{ts,tsx}'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { project: './tsconfig.test.json', tsconfigRootDir: import.meta.dirname }
    },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/consistent-type-imports': 'error',
      // A class, an interface or a token may carry the names that belong to it, as everywhere in JupyterLab.
      '@typescript-eslint/no-namespace': 'off',
      // Lumino's signals take the receiver as an argument of its own.
      '@typescript-eslint/unbound-method': 'off',
      complexity: ['error', 10],
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', 50],
      'no-console': 'error',
      'prefer-arrow-callback': 'error'
    }
  },
  {
    files: ['src/__tests__/**'],
    rules: { 'max-lines-per-function': 'off' }
  },
  {
    files: ['*.js'],
    languageOptions: { globals: { __dirname: 'readonly', module: 'writable', require: 'readonly' } }
  },
  { plugins: { jupyter } },
  ...jupyter.configs.recommended,
  {
    files: ['src/plugins/*.ts'],
    rules: {
      'jupyter/prefer-lazy-imports': [
        'warn',
        // Each registers something when the application starts, and what is registered is made by a synchronous call.
        {
          ignoreImports: [
            // The model asks as soon as it is there, so this file is loaded in any case.
            '../api/client',
            '../commands/modelCommands',
            '../commands/shellCommands',
            '../jobView/jobViewCommands',
            '../model/jobsModel',
            '../notebook/cardRenderer',
            '../notebook/cardSnapshot',
            '../notebook/closedFailures',
            '../notifications/storage',
            '../sidebar/insertCell',
            '../sidebar/jobsPanel',
            '../sidebar/runningSessions',
            '../widgets/statusItem'
          ]
        }
      ]
    }
  },
  prettier
);
