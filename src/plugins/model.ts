// The plugin that provides jobs and pools to all others.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { UUID } from '@lumino/coreutils';

import { ApiClient } from '../api/client';
import { JobsModel } from '../model/jobsModel';
import { IJobsModel } from '../tokens';

export const modelPlugin: JupyterFrontEndPlugin<IJobsModel> = {
  id: 'jupyter-smx:model',
  description: 'Tracks the jobs and warm pools of this user.',
  autoStart: true,
  provides: IJobsModel,
  activate: (app: JupyterFrontEnd): IJobsModel => {
    const { connectionFailure, events, serverSettings } = app.serviceManager;
    const model = new JobsModel({
      api: new ApiClient(serverSettings),
      events: events.stream,
      page: document,
      clock: () => Date.now() / 1000,
      newId: () => UUID.uuid4().replace(/-/g, '')
    });
    // JupyterLab polls its kernels. If that fails, events about jobs are lost, too, and no other signal reports it.
    connectionFailure.connect(() => {
      if (model.state.failure === null) {
        void model.catchUp();
      }
    });
    // While Lab restores its layout: the cards of a restored notebook are live as soon as they are drawn.
    void model.refresh();
    return model;
  }
};
