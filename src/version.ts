// The version of this page, which is that of `package.json`; the server half says its own.

export const VERSION = '0.1.0';
