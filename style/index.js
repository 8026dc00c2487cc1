import './base.css';
import './charts.css';
import './contrast.css';
