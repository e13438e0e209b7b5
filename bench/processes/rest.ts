/**
 * The REST front in a process of its own: `rest.ts <redis port> <token> <delay ms>`; answers any question with the
 * number of its requests so far.
 */
import { startRestFront } from '../../tools/rest-front.ts'
import { serveParent } from './child.ts'

const [redisPort, token = '', delayMs] = process.argv.slice(2)
const front = await startRestFront({ redisPort: Number(redisPort), token, delayMs: Number(delayMs) })
serveParent(front.url, () => front.requests)
