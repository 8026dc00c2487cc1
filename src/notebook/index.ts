// Cards and the marks of cells, which the page loads with its first notebook.

export { followAwsMagic } from './awsMagic';
export { createCardFactory } from './cards';
export { CellMarkRenderer } from './cellMarkRenderer';
