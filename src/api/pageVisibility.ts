// The part of `document` that says whether anybody looks at the page.

export type IPageVisibility = Pick<
  Document,
  'visibilityState' | 'addEventListener' | 'removeEventListener'
>;
