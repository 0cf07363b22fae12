// The server at Modal's fake, of which one request fails; SCALE=full: also with computers of the first generation.
import { anyOneFails } from './chaos.mjs';

anyOneFails('modal');
if (process.env.SCALE === 'full') anyOneFails('modal-1');
