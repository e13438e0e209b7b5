/** The configuration of a gateway, and the parts that its host brings. */
import type { StageWatch } from '../../core/engine/stages/stage.ts'
import { readCalendarLimits } from '../../core/options/calendar.ts'
import type { Timers } from '../../core/runtime/call-context.ts'
import { type Clocks, createClocks } from '../../core/runtime/clocks.ts'
import { consoleLog, type Log, throttle } from '../../core/runtime/log.ts'
import type { Backend } from '../../core/store/backend.ts'
import type { Connect } from '../../core/store/redis/upstash-backend.ts'
import { type Config, type Environment, loadConfig } from '../../http/config/load-config.ts'
import { readShards } from '../../http/config/shards.ts'
import type { DecisionHook } from '../app/app.ts'
import type { Upstream } from '../app/proxy.ts'

/** Parts that a host brings in place of a Worker's own. */
export interface Host {
  /** Opens the store in place of the one that the variables name. */
  readonly open?: ((config: Config, now: () => number) => Backend) | undefined
  /** Connects to a database at Upstash; default: over REST. */
  readonly connect?: Connect | undefined
  /** Answers admitted requests; default: the service binding, or what UPSTREAM_URL leads to. */
  readonly upstream?: Upstream | undefined
  /** Default: those of the runtime. */
  readonly timers?: Timers | undefined
  /** Draws an integer of 53 bits; default: at random. */
  readonly drawNumber?: (() => number) | undefined
  /** Creates what tells a function of decisions; `next` observes them for statistics. */
  readonly createWatch?: ((next: StageWatch | undefined) => DecisionHook) | undefined
  /** Tests that a request comes with the variables of this gateway; default: any may be given, and none is read. */
  readonly isOwnEnvironment?: ((env: Environment | undefined) => boolean) | undefined
  /** Default: the console. */
  readonly log?: Log | undefined
  /** Aborts when the process is about to end. */
  readonly ending?: AbortSignal | undefined
}

/** Everything that is known before stores are opened: each phase gets it. */
export interface Setting {
  readonly env: Environment
  readonly config: Config
  readonly host: Host
  readonly clocks: Clocks
  readonly log: Log
}

/** @throws {OptionError} for a wrong variable */
export function readSetting(env: Environment, host: Host): Setting {
  // An app that runs here stands for the service binding.
  const given = host.upstream ? { ...env, UPSTREAM: host.upstream } : env
  const config = loadConfig(given, { readCalendarLimits, readShards })
  const clocks = createClocks()
  return { env: given, config, host, clocks, log: throttle(host.log ?? consoleLog, clocks.now) }
}
