/**
 * The gateway, as a Worker.
 * @module sluice/worker
 */
import { startGateway } from './gateway/start-gateway.ts'

export { LazyObject as LimitObject } from './core/store/durable-object/lazy-object.ts'

// Other runtimes have no such module, and older Workers no `env` in it.
const { env = {} } = await import('cloudflare:workers').catch(() => ({}) as { readonly env?: Cloudflare.Env })
const hasVariables = Object.keys(env).length > 0

/** Handles requests as the Worker's variables configure: a Hono app, made where the isolate starts. */
export default await startGateway(hasVariables ? { ...env } : undefined)
