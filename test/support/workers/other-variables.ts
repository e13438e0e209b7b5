/** A Worker that passes variables of its own to the gateway's. */
import worker from '../../../src/worker.ts'

export default {
  fetch: (request: Request, env: { readonly PASSED?: object }, ctx: ExecutionContext) =>
    worker.fetch(request, { ...env, RATE_LIMITS: '1/1h', ...env.PASSED }, ctx),
}
