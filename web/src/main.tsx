import { render } from 'preact';
import { App } from './app';
import { begin } from './session';

const root = document.getElementById('app');
if (root) render(<App />, root);
void begin();
