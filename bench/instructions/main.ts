/**
 * Instructions of the processor that Redis spends on a decision, and the gateways on a request, which no other load on
 * the machine changes: valgrind counts them.
 *
 *     npm run bench:instructions [-- redis|gateways]
 *
 * Needs valgrind (Debian: apt-get install valgrind). About three minutes for Redis, and ten for the gateways.
 */
import { installPeers } from '../peers.ts'
import { print } from '../report/tables.ts'
import { requireCallgrind } from './callgrind.ts'
import { countInGateways } from './in-gateways.ts'
import { countInRedis } from './in-redis.ts'

const PARTS = ['redis', 'gateways']
const [only, ...others] = process.argv.slice(2)
if (others.length > 0 || (only !== undefined && !PARTS.includes(only))) {
  console.error(`usage: npm run bench:instructions [-- ${PARTS.join('|')}]`)
  process.exit(1)
}
const isChosen = (part: string) => only === undefined || only === part
const underCallgrind = await requireCallgrind()
installPeers()
if (isChosen('redis')) print('Instructions of Redis for a decision', await countInRedis(underCallgrind))
if (isChosen('gateways')) print('Instructions of a gateway for a request', await countInGateways(underCallgrind))
