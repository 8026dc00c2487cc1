import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';

import { loadDisplayOptions } from '../../log';
import { FakeModel } from '../fixtures/fakeModel';

describe('how logs are shown', () => {
  const load = jest.fn();
  const registry = { load } as unknown as ISettingRegistry;

  it.each([true, false])('is what the setting says: %p', async composite => {
    load.mockResolvedValue({ get: (name: string) => (name === 'wrap' ? { composite } : {}) });
    expect((await loadDisplayOptions(new FakeModel(), registry)).isWrapped).toBe(composite);
    expect(load).toHaveBeenLastCalledWith('jupyter-smx:log');
  });

  it('is known without settings', async () => {
    load.mockRejectedValue(new Error('No such schema'));
    expect((await loadDisplayOptions(new FakeModel(), registry)).isWrapped).toBe(true);
    expect((await loadDisplayOptions(new FakeModel(), null)).isWrapped).toBe(true);
  });

  it('tells why a controller could not be started', async () => {
    const said = jest.spyOn(Notification, 'error').mockReturnValue('');
    const model = new FakeModel();
    model.startController.mockRejectedValue(new Error('It could not be started.'));
    const { startController } = await loadDisplayOptions(model, null);
    await startController?.();
    expect(said.mock.calls.map(([sentence]) => sentence)).toEqual(['It could not be started.']);
    said.mockRestore();
  });
});
