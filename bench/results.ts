/** The results of one run of `npm run bench`. */
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { RedisClient } from '../test/support/redis-client.ts'
import type { AccuracyFigures, LeaseFigures } from './accuracy/measure.ts'
import type { FloodFigures } from './floods/measure.ts'
import type { AddedFigures } from './gateway/added.ts'
import type { PairFigures } from './gateway/side-by-side.ts'
import { findWrk } from './gateway/wrk.ts'
import type { IdentityFigures } from './identities/measure.ts'
import type { DecisionInstructions } from './instructions/in-redis.ts'
import type { LibraryFigures } from './library/measure.ts'
import type { RedisFigures } from './redis/measure.ts'
import type { RulesBench } from './rules/measure.ts'
import type { ServeFigures } from './serve/measure.ts'
import type { StartFigures } from './start/measure.ts'
import type { EvictionFigures } from './stores/evictions.ts'
import type { WorstFigures } from './worst/measure.ts'

/** A section that was left out is missing. */
export interface Results {
  readonly machine: Machine
  readonly accuracy?: readonly AccuracyFigures[]
  readonly redis?: readonly RedisFigures[]
  readonly instructions?: readonly DecisionInstructions[]
  readonly identities?: readonly IdentityFigures[]
  readonly gateway?: readonly PairFigures[]
  readonly added?: readonly AddedFigures[]
  readonly start?: readonly StartFigures[]
  /** An ordinary request of each gateway comes first, then the worst found. */
  readonly worst?: readonly WorstFigures[]
  readonly rules?: RulesBench
  readonly evictions?: readonly EvictionFigures[]
  readonly floods?: readonly FloodFigures[]
  readonly leases?: readonly LeaseFigures[]
  readonly library?: LibraryFigures
  readonly serve?: readonly ServeFigures[]
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
