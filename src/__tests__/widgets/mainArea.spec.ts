import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Widget } from '@lumino/widgets';

import { activateInMainArea, addToMainArea } from '../../widgets/mainArea';

/** A shell that has some areas and passes over widgets for all others. */
function shellWith(...areas: string[]) {
  const added: string[] = [];
  const activateById = jest.fn<void, [string]>();
  const add = (widget: Widget, area: string): void => {
    if (areas.includes(area)) {
      added.push(area);
      Widget.attach(widget, document.body);
    }
  };
  return { added, activateById, shell: { add, activateById } as unknown as JupyterFrontEnd.IShell };
}

function widgetNamed(id: string): Widget {
  const widget = new Widget();
  widget.id = id;
  return widget;
}

describe('a widget of the main area', () => {
  it.each([
    ['JupyterLab', ['main', 'down', 'right'], 'main', []],
    ['a page with a document', ['down', 'right'], 'down', ['jp-smx-under']],
    ['such a page of Notebook before 7.4', ['right'], 'right', ['jp-smx-beside']]
  ])('goes in %s to one place', (_, areas, place, classes) => {
    const { added, shell } = shellWith(...areas);
    const widget = widgetNamed('view');
    addToMainArea(shell, widget);
    expect(added).toEqual([place]);
    const own = [...widget.node.classList].filter(name => name.startsWith('jp-smx-'));
    expect(own).toEqual(classes);
    widget.dispose();
  });

  it('is activated by the shell, except where it is visible in a side panel, which that would close', () => {
    const { activateById, shell } = shellWith('right');
    const widget = widgetNamed('view');
    const activate = jest.spyOn(widget, 'activate');
    addToMainArea(shell, widget);
    widget.hide();
    activateInMainArea(shell, widget);
    expect(activateById).toHaveBeenCalledWith('view');
    widget.show();
    activateInMainArea(shell, widget);
    expect(activateById).toHaveBeenCalledTimes(1);
    expect(activate).toHaveBeenCalledTimes(1);
    widget.dispose();
  });

  it('is activated by the shell in JupyterLab, visible or not', () => {
    const { activateById, shell } = shellWith('main');
    const widget = widgetNamed('view');
    addToMainArea(shell, widget);
    activateInMainArea(shell, widget);
    expect(activateById).toHaveBeenCalledWith('view');
    widget.dispose();
  });
});
