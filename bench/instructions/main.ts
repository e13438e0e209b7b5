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
import { findCallgrind } from './callgrind.ts'
import { countInGateways } from './in-gateways.ts'
import { countInRedis } from './in-redis.ts'

const [only, ...others] = process.argv.slice(2)
if (others.length > 0 || (only !== undefined && only !== 'redis' && only !== 'gateways')) {
  console.error('usage: npm run bench:instructions [-- redis|gateways]')
  process.exit(1)
}
const underCallgrind = await findCallgrind()
if (!underCallgrind) {
  console.error('valgrind is not installed: apt-get install valgrind')
  process.exit(1)
}
installPeers()
if (only !== 'gateways') print('Instructions of Redis for a decision', await countInRedis(underCallgrind))
if (only !== 'redis') print('Instructions of a gateway for a request', await countInGateways(underCallgrind))
