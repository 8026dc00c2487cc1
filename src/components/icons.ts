// The pictures of this extension.

import { LabIcon } from '@jupyterlab/ui-components';

import compareSvg from '../../style/icons/compare.svg';
import jobsSvg from '../../style/icons/jobs.svg';

export const jobsIcon = new LabIcon({ name: 'jupyter-smx:jobs', svgstr: jobsSvg });

export const compareIcon = new LabIcon({ name: 'jupyter-smx:compare', svgstr: compareSvg });
