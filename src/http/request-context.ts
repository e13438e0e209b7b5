import { StoreError } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { Deadlines } from '../runtime/deadlines.ts'
import type { Log } from '../runtime/log.ts'

/**
 * What one request lends to the calls that are made for it.
 * @param keepAlive keeps the platform from ending the request before the work is done
 * @param request its signal is aborted when the client has gone away
 */
export function requestContext(
  keepAlive: (work: Promise<unknown>) => void,
  log: Log,
  request?: Pick<Request, 'signal'>,
): CallContext {
  return {
    deadlines: new Deadlines(),
    isClientGone: () => request?.signal.aborted === true,
    waitUntil(work) {
      const logged = work.catch((error: unknown) => {
        log('error', { event: 'after_response', message: error instanceof StoreError ? error.message : 'failed' })
      })
      keepAlive(logged)
    },
  }
}
