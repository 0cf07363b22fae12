// The server at E2B's fake, of which one request fails.
import { anyOneFails } from './chaos.mjs';

anyOneFails('e2b');
