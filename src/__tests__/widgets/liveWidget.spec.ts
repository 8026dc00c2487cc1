import { MessageLoop } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';

import { updateEverySecond } from '../../widgets/liveWidget';

/** Counts how often it is drawn. */
class Drawn extends Widget {
  drawn = 0;

  protected onUpdateRequest(): void {
    this.drawn += 1;
  }
}

describe('what changes with time alone', () => {
  let panel: Panel;
  let widget: Drawn;
  let isTicking: boolean;

  beforeEach(() => {
    jest.useFakeTimers();
    isTicking = true;
    panel = new Panel();
    widget = new Drawn();
    updateEverySecond(widget, () => isTicking);
    panel.addWidget(widget);
  });

  afterEach(() => {
    panel.dispose();
    jest.useRealTimers();
  });

  function drawnIn(seconds: number): number {
    const before = widget.drawn;
    for (let second = 0; second < seconds; second++) {
      jest.advanceTimersByTime(1000);
      MessageLoop.flush();
    }
    return widget.drawn - before;
  }

  it('is drawn each second while it is seen', () => {
    expect(drawnIn(3)).toBe(0);
    Widget.attach(panel, document.body);
    expect(drawnIn(3)).toBe(3);
    isTicking = false;
    expect(drawnIn(3)).toBe(0);
  });

  it('is not while it, what it is in, or the page is hidden', () => {
    Widget.attach(panel, document.body);
    panel.hide();
    expect(drawnIn(3)).toBe(0);
    expect(jest.getTimerCount()).toBe(0);
    panel.show();
    expect(drawnIn(3)).toBe(3);
    const hidden = jest.spyOn(document, 'hidden', 'get').mockReturnValue(true);
    expect(drawnIn(3)).toBe(0);
    hidden.mockRestore();
    expect(drawnIn(1)).toBe(1);
  });

  it('leaves no timer behind', () => {
    Widget.attach(panel, document.body);
    panel.dispose();
    expect(jest.getTimerCount()).toBe(0);
  });
});
