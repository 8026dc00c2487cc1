import './base.css';
import './card.css';
import './charts.css';
import './contrast.css';
import './log.css';
import './place.css';
