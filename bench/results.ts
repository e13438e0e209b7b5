/** The results of one run of `npm run bench`. */
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { RedisClient } from '../test/support/redis-client.ts'
import type { AccuracyFigures, LeaseFigures } from './accuracy/measure.ts'
import type { FloodFigures } from './floods/measure.ts'
import type { GatewayFigures } from './gateway/measure.ts'
import type { OperateFigures } from './gateway/operate.ts'
import type { PairFigures } from './gateway/side-by-side.ts'
import { findWrk } from './gateway/wrk.ts'
import type { IdentityFigures } from './identities/measure.ts'
import type { LibraryFigures } from './library/measure.ts'
import type { RedisFigures } from './redis/measure.ts'
import type { RulesBench } from './rules/measure.ts'
import type { StoreFigures } from './stores/measure.ts'
import type { LoadFigures } from './stores/measure-load.ts'
import type { WorstFigures } from './worst/measure.ts'

/** A section that was left out is missing. */
export interface Results {
  readonly machine: Machine
  readonly isQuick: boolean
  readonly redis?: readonly RedisFigures[]
  readonly gateway?: readonly GatewayFigures[]
  readonly pairs?: readonly PairFigures[]
  readonly stores?: readonly StoreFigures[]
  /** What an object takes after it was evicted. */
  readonly loads?: readonly LoadFigures[]
  readonly operate?: readonly OperateFigures[]
  readonly accuracy?: readonly AccuracyFigures[]
  /** An ordinary request of each gateway comes first, then the worst found. */
  readonly worst?: readonly WorstFigures[]
  readonly leases?: readonly LeaseFigures[]
  readonly library?: LibraryFigures
  readonly rules?: RulesBench
  readonly floods?: readonly FloodFigures[]
  readonly identities?: readonly IdentityFigures[]
}

/** What figures depend on, and when they were taken. */
export interface Machine {
  readonly date: string
  readonly processors: string
  readonly versions: Readonly<Record<string, string>>
}

export async function describeMachine(redis: RedisClient): Promise<Machine> {
  const { dependencies } = readJson('./package.json')
  return {
    date: new Date().toISOString().slice(0, 10),
    processors: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
    versions: {
      node: process.versions.node,
      redis: /redis_version:(\S+)/.exec(await redis.info('server'))?.[1] ?? '?',
      workerd: readJson('../node_modules/workerd/package.json').version,
      wrk: await findWrk(),
      ...dependencies,
    },
  }
}

function readJson(file: string) {
  return JSON.parse(readFileSync(fileURLToPath(import.meta.resolve(file)), 'utf8'))
}

/** Rounds what JSON.stringify() writes to six digits, which is more than any figure is known to. */
export function roundNumber(_: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value
}
