import { holdFocus } from '../../widgets/focusHold';

describe('the focus of the panel that was requested', () => {
  let panel: HTMLElement;
  let inPanel: HTMLElement;
  let inDocument: HTMLElement;
  let elsewhere: HTMLElement;

  beforeEach(() => {
    jest.useFakeTimers();
    document.body.innerHTML =
      '<div id="panel" tabindex="-1"><button></button></div><main><button></button></main><button></button>';
    const [first, second, third] = document.querySelectorAll('button');
    panel = document.getElementById('panel') as HTMLElement;
    [inPanel, inDocument, elsewhere] = [first, second, third];
    holdFocus(panel, document.querySelector('main') as HTMLElement);
    panel.focus();
  });

  afterEach(() => {
    jest.runAllTimers();
    jest.useRealTimers();
  });

  it('returns from the document, as often as it is taken away', () => {
    for (let i = 0; i < 3; i++) {
      inDocument.focus();
      expect(document.activeElement).toBe(panel);
    }
  });

  it('moves anywhere else, such as into a dialog or within the panel', () => {
    for (const node of [elsewhere, inPanel]) {
      node.focus();
      expect(document.activeElement).toBe(node);
    }
  });

  it.each(['keydown', 'pointerdown'])('is free after a %s', kind => {
    document.body.dispatchEvent(new Event(kind, { bubbles: true }));
    inDocument.focus();
    expect(document.activeElement).toBe(inDocument);
  });

  it('is free after the time that the palette needs', () => {
    jest.advanceTimersByTime(1000);
    inDocument.focus();
    expect(document.activeElement).toBe(inDocument);
  });
});
