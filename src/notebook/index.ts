// Cards and the marks of cells, which the page loads with its first notebook.

export { createCardFactory } from './cards';
export { CellMarkRenderer } from './cellMarkRenderer';
