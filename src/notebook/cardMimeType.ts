// The MIME type of a card, apart from the code that draws it: JupyterLab takes the type when it starts.

export const CARD_MIME_TYPE = 'application/vnd.jupyter-smx.card+json';
