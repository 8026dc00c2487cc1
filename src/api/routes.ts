// The paths of the server's routes, made from the table of routes.

import { ROUTES } from './_routes';

/** What the server can be asked to do. */
export type Action = keyof typeof ROUTES;

/** Return the HTTP method of an action. */
export function methodOf(action: Action): string {
  return ROUTES[action].method;
}

/**
 * Return the path where POST does the same as the method of an action, with the id of a job or a pool; '' if there is
 * none.
 */
export function postPathOf(action: Action, id = ''): string {
  const route: { path: string; postPath?: string } = ROUTES[action];
  return (route.postPath ?? '').replace('{ref}', encodeURIComponent(id));
}

/**
 * Return the path of an action below the server's root: with the id of a job, an array or a pool, and with the name of
 * an artifact, where the path has them.
 */
export function pathOf(action: Action, id = '', name = ''): string {
  const segments = name.split('/').map(encodeURIComponent).join('/');
  return ROUTES[action].path
    .replace('{ref}', encodeURIComponent(id))
    .replace('{name:path}', segments);
}
