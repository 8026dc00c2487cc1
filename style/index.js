import './base.css';
import './charts.css';
