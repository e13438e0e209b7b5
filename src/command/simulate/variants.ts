/** Simulates several values of one setting on the same requests. */
import { ALGORITHMS, holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import type { LeaseSize } from '../../core/engine/leases/with-leases.ts'
import { ALGORITHM_NAMES, type AlgorithmName, formatWindow } from '../../core/model/limits.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { readLimits } from '../../core/options/read-limits.ts'
import type { Config } from '../../http/config/load-config.ts'
import { CommandError } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'
import { loadWorkerConfig } from '../worker-config.ts'

/** Values tried in place of the configuration; null: as configured. */
export interface Variant {
  readonly limits: string | null
  readonly algorithm: AlgorithmName | null
  /** Null: no request is decided without a call, and no permits are leased. */
  readonly leases: LeaseSize | 'off' | null
}

type Alternatives = { readonly [Key in keyof Variant]?: readonly NonNullable<Variant[Key]>[] | undefined }

/** More would be slow, and too many to compare. */
const MAX_VARIANTS = 24
/** The policy that RATE_LIMITS makes. */
const DEFAULT_POLICY = 'default'
/** Algorithms that count requests over time: a log does not say how long a slot was held. */
export const SIMULATED_ALGORITHMS = ALGORITHM_NAMES.filter((algorithm) => !holdsSlots({ algorithm }))

/** Combines each of the limits with each of the algorithms and leases. @throws {CommandError} if these are too many */
export function combine({ limits, algorithm, leases }: Alternatives): readonly Variant[] {
  const variants = (limits ?? [null]).flatMap((limits) =>
    (algorithm ?? [null]).flatMap((algorithm) => (leases ?? [null]).map((leases) => ({ limits, algorithm, leases }))),
  )
  if (variants.length <= MAX_VARIANTS) return variants
  throw new CommandError(`expected at most ${MAX_VARIANTS} combinations side by side, got ${variants.length}`)
}

/** @throws {OptionError|CommandError} */
export function loadVariant(settings: Settings, { limits, algorithm }: Variant): Config {
  const variables = limits === null ? settings.variables : { ...settings.variables, RATE_LIMITS: limits }
  const config = loadWorkerConfig({ ...settings, variables })
  if (algorithm === null) return config
  if (!config.policies.some(({ name }) => name === DEFAULT_POLICY)) {
    const hint = 'Add --limits, such as --limits "10/1s".'
    throw new CommandError('--algorithm: there is no policy of RATE_LIMITS, which it is for', { hint })
  }
  const policies = config.policies.flatMap((policy) =>
    policy.name === DEFAULT_POLICY ? withAlgorithm(algorithm, policy) : [policy],
  )
  return { ...config, policies }
}

/** Counts the same limits by another algorithm. A bucket has one limit, so each of several gets its own bucket. */
function withAlgorithm(algorithm: AlgorithmName, policy: RequestPolicy): readonly RequestPolicy[] {
  const { hasBurst } = ALGORITHMS[algorithm]
  const parts = hasBurst ? policy.limits.map((limit) => [limit]) : [policy.limits]
  return parts.map((part) => {
    const name = parts.length === 1 ? policy.name : `${policy.name}-${formatWindow(part[0]?.windowMs ?? 0)}`
    const text = part.map((each) => `${each.limit}/${each.calendar?.unit ?? formatWindow(each.windowMs)}`).join(', ')
    const read = readLimits({ name, algorithm, limits: text }, (_, expected) => {
      throw new CommandError(`--algorithm ${algorithm}: expected ${expected}, got ${text}`)
    })
    return { ...policy, name, algorithm, ...read }
  })
}
