import { readCalendarLimits } from '../algorithms/calendar.ts'
import { type Config, type Environment, loadConfig } from '../config/load-config.ts'
import { withKnownKeys } from './check/policy-mistakes.ts'
import type { Settings } from './settings/settings.ts'
import type { Terminal } from './terminal.ts'

const IGNORED = ['UPSTREAM_URL', 'STORE', 'STORE_MIRROR', 'UPSTASH_REDIS_REST_URL', 'UPSTASH_REDIS_REST_TOKEN']

/** Loads the Worker's configuration without its upstream and database. @throws {OptionError} */
export function loadWorkerConfig(settings: Settings): Config {
  return loadConfig(toEnvironment(settings), readCalendarLimits)
}

export function toEnvironment(settings: Settings): Environment {
  // Counters can be read despite a wrong upstream; and --redis may be combined with a token alone.
  return { ...withKnownKeys(withoutPlaces(settings)), UPSTREAM: { fetch() {} } }
}

/** The variables but for those of upstream and stores. */
export function withoutPlaces({ variables }: Settings): Environment {
  return Object.fromEntries(Object.entries(variables).filter(([name]) => !IGNORED.includes(name)))
}

export function noteDigests({ variables }: Settings, terminal: Terminal): void {
  if (variables.IDENTITY_SECRET !== undefined) return
  terminal.note('note: IDENTITY_SECRET is not known here: if the Worker has one, these are not its keys')
}
