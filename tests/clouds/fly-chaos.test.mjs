// The server at Fly's fake, of which one request fails.
import { anyOneFails } from './chaos.mjs';

anyOneFails('fly');
