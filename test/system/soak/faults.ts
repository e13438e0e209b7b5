/** A fault for each part that is soaked. Each turns the command red within two minutes: `npm run test:soak -- --hours 0.033`. */
import type { Fault } from '../../planted/faults.ts'

export const SOAK_FAULTS: readonly Fault[] = [
  {
    name: 'script-admits-everything',
    file: 'lua/sliding-window.lua',
    find: 'left, reset_ms = limit - used, first_ms + window - now',
    replace: 'left, reset_ms = limit, first_ms + window - now',
  },
  {
    name: 'object-decides-without-its-state',
    file: 'src/core/store/durable-object/ledger.ts',
    find: 'return expiresAtMs >= this.nowMs ? state : undefined',
    replace: 'return expiresAtMs >= this.nowMs && this.state.open.size > 0 ? state : undefined',
  },
  {
    name: 'refusal-told-as-granted',
    file: 'src/gateway/decide/decide.ts',
    find: ': decision.granted > 0',
    replace: ': decision.granted >= 0',
  },
  {
    name: 'memory-admits-a-second-early',
    file: 'src/core/store/memory/window-store.ts',
    find: 'if (retryAfterMs === 0) {',
    replace: 'if (retryAfterMs < 1_000) {',
  },
]
