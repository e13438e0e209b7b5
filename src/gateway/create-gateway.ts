/** A gateway, put together from the bottom to the top: what the Worker and `sluice serve` run. */
import type { Config, Environment } from '../http/config/load-config.ts'
import type { App, GatewayContext } from './app/app.ts'
import { createDecider } from './compose/create-decider.ts'
import { createGatewayApp } from './compose/create-gateway-app.ts'
import { openStores } from './compose/open-stores.ts'
import { type Host, readSetting, type Setting } from './compose/setting.ts'

export interface ComposedGateway {
  readonly app: App
  readonly config: Config
  /** Parts by which other servers decide. */
  readonly gateway: GatewayContext
}

/** @throws {OptionError} for a wrong variable */
export async function createGateway(env: Environment, host: Host = {}): Promise<ComposedGateway> {
  return composeGateway(readSetting(env, host))
}

export async function composeGateway(setting: Setting): Promise<ComposedGateway> {
  const stores = await openStores(setting)
  const decider = await createDecider(setting, stores)
  return { config: setting.config, ...(await createGatewayApp(setting, stores, decider)) }
}
