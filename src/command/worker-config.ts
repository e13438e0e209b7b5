import { type Config, type Environment, loadConfig } from '../config/load-config.ts'
import { withKnownKeys } from './check/policy-mistakes.ts'
import type { Settings } from './settings/settings.ts'

/** Loads the Worker's configuration without its upstream and database. @throws {OptionError} */
export function loadWorkerConfig(settings: Settings): Config {
  return loadConfig(toEnvironment(settings))
}

export function toEnvironment({ variables }: Settings): Environment {
  const {
    UPSTREAM_URL: _,
    STORE: _store,
    STORE_SHADOW: _shadow,
    UPSTASH_REDIS_REST_URL: _url,
    UPSTASH_REDIS_REST_TOKEN: _token,
    ...others
  } = variables
  // Counters can be read despite a wrong upstream; and --redis may be combined with a token alone.
  return { ...withKnownKeys(others), UPSTREAM: { fetch() {} } }
}

/** @returns a warning if digests may differ from the Worker's */
export function digestNote({ variables }: Settings): string | undefined {
  return variables.IDENTITY_SECRET === undefined
    ? 'note: IDENTITY_SECRET is not known here: if the Worker has one, these are not its keys'
    : undefined
}
