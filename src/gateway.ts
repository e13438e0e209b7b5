/**
 * The gateway in a Worker of your own: before your app, behind it, or next to it.
 * @module sluice/gateway
 */
import type { ExecutionContext } from 'hono'
import type { Upstream } from './gateway/app/proxy.ts'
import { startOwnGateway } from './gateway/start-gateway.ts'
import type { Environment } from './http/config/load-config.ts'

export { OptionError } from './core/options/option-error.ts'
export { LazyObject as LimitObject } from './core/store/durable-object/lazy-object.ts'
export type { Environment, ExecutionContext, Upstream }

export interface GatewayOptions {
  /**
   * Your app, which answers admitted requests as if it were a Worker by itself.
   * @default the service binding `UPSTREAM`, or else what `UPSTREAM_URL` leads to
   */
  readonly upstream?: Upstream | undefined
}

/** Limits and forwards requests. It is no Hono app: mounted in another one, its own routes could be gone round. */
export interface Gateway {
  /** @param env is not read: gateway and `upstream` have the variables that it was created with */
  fetch(request: Request, env?: unknown, context?: ExecutionContext): Promise<Response>
}

/**
 * Creates a gateway, once for each isolate: `await createGateway(env)` where your module starts, with `env` of
 * `cloudflare:workers`.
 * @param env variables and bindings, as [the gateway](https://github.com/OWNER/sluice/blob/main/docs/variables.md) has them
 * @throws {OptionError} for a wrong variable. Thrown where a module starts, it stops the whole Worker, its Durable Objects
 * as well.
 */
export async function createGateway(env: Environment, options: GatewayOptions = {}): Promise<Gateway> {
  return startOwnGateway(env, options.upstream)
}
