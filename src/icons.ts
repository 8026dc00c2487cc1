// The one picture of this extension.

import { LabIcon } from '@jupyterlab/ui-components';

import jobsSvg from '../style/icons/jobs.svg';

export const jobsIcon = new LabIcon({ name: 'jupyter-smx:jobs', svgstr: jobsSvg });
