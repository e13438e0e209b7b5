/**
 * The gateway, as a Worker.
 * @module sluice/worker
 */
import type { ExecutionContext } from 'hono'
import { OptionError } from './core/options/option-error.ts'
import { consoleLog } from './core/runtime/log.ts'
import type { App } from './gateway/app/app.ts'
import { createHandler } from './gateway/create-handler.ts'
import type { Environment } from './http/config/load-config.ts'

export { LazyObject as LimitObject } from './core/store/durable-object/lazy-object.ts'

let handler: App | undefined

/** Handles requests as the Worker's variables configure. */
export default {
  fetch(request: Request, env: Environment, ctx: ExecutionContext) {
    return handler ? handler.fetch(request, env, ctx) : startWith(request, env, ctx)
  },
}

/** Starts a handler. Requests that come meanwhile start one as well: a shared promise may hang on Workers. */
async function startWith(request: Request, env: Environment, ctx: ExecutionContext): Promise<Response> {
  const started = await start(env)
  handler ??= started
  return handler.fetch(request, env, ctx)
}

async function start(env: Environment): Promise<App> {
  try {
    return (await createHandler(env)).app
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    const { variable, message } = error
    consoleLog('error', { event: 'misconfigured', message })
    const { createMisconfiguredProblem } = await import('./gateway/app/gateway-problem.ts')
    return { fetch: () => createMisconfiguredProblem(variable) }
  }
}
