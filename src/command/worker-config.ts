import { type Config, type Environment, loadConfig } from '../config/load-config.ts'
import { withKnownKeys } from './check/policy-mistakes.ts'
import type { Settings } from './settings/settings.ts'

/** The Worker's configuration, whatever its API and database are. @throws {OptionError} */
export function loadWorkerConfig(settings: Settings): Config {
  return loadConfig(toEnvironment(settings))
}

/** The variables that the configuration is read from. */
export function toEnvironment({ variables }: Settings): Environment {
  const {
    UPSTREAM_URL: _,
    STORE: _store,
    STORE_SHADOW: _shadow,
    UPSTASH_REDIS_REST_URL: _url,
    UPSTASH_REDIS_REST_TOKEN: _token,
    ...others
  } = variables
  // A wrong upstream does not keep counters from being read; and with --redis, a token may be set alone.
  return { ...withKnownKeys(others), UPSTREAM: { fetch() {} } }
}

/** A warning if digests may differ from the Worker's. */
export function digestNote({ variables }: Settings): string | undefined {
  return variables.IDENTITY_SECRET === undefined
    ? 'note: IDENTITY_SECRET is not known here: if the Worker has one, these are not its keys'
    : undefined
}
