import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { formatLimitName, readLimits } from '../../algorithms/read-limits.ts'
import type { Config } from '../../config/load-config.ts'
import { LEASES_EXPECTED } from '../../config/values.ts'
import type { LeaseSize } from '../../engine/leases.ts'
import { ALGORITHM_NAMES, type AlgorithmName, formatWindow, parseLimits } from '../../model/limits.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import { CommandError } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'
import { loadWorkerConfig } from '../worker-config.ts'

/** What is tried in place of the configuration; undefined: as configured. */
export interface Variant {
  readonly limits: string | undefined
  readonly algorithm: AlgorithmName | undefined
  /** Undefined: no request is decided without a call, and no permits are leased. */
  readonly leases: LeaseSize | 'off' | undefined
}

/** Several values of each, to be combined. */
export type Alternatives = { readonly [Key in keyof Variant]?: readonly NonNullable<Variant[Key]>[] | undefined }

/** More would be slow, and nobody could compare them. */
const MAX_VARIANTS = 24
/** The policy that RATE_LIMITS makes. */
const DEFAULT_POLICY = 'default'
/** Those that count requests over time. */
export const SIMULATED_ALGORITHMS = ALGORITHM_NAMES.filter((name) => !ALGORITHMS[name].holdsSlots)

/** Each of the limits with each of the algorithms and leases. @throws {CommandError} if these are too many */
export function combine({ limits, algorithm, leases }: Alternatives): readonly Variant[] {
  const variants = (limits ?? [undefined]).flatMap((limits) =>
    (algorithm ?? [undefined]).flatMap((algorithm) =>
      (leases ?? [undefined]).map((leases) => ({ limits, algorithm, leases })),
    ),
  )
  if (variants.length <= MAX_VARIANTS) return variants
  throw new CommandError(`expected at most ${MAX_VARIANTS} combinations side by side, got ${variants.length}`)
}

/** @throws {OptionError|CommandError} */
export function loadVariant(settings: Settings, { limits, algorithm }: Variant): Config {
  const variables = limits === undefined ? settings.variables : { ...settings.variables, RATE_LIMITS: limits }
  const config = loadWorkerConfig({ ...settings, variables })
  if (algorithm === undefined) return config
  if (!config.policies.some(({ name }) => name === DEFAULT_POLICY)) {
    throw new CommandError('--algorithm: there is no policy of RATE_LIMITS, which it is for', {
      hint: 'Add --limits, such as --limits "10/1s".',
    })
  }
  const policies = config.policies.flatMap((policy) =>
    policy.name === DEFAULT_POLICY ? withAlgorithm(algorithm, policy) : [policy],
  )
  return { ...config, policies }
}

/** The same limits by another algorithm. A bucket has one limit: of several, each gets a bucket of its own. */
function withAlgorithm(algorithm: AlgorithmName, policy: RequestPolicy): readonly RequestPolicy[] {
  const { hasBurst } = ALGORITHMS[algorithm]
  const parts = hasBurst ? policy.tiers.map((tier) => [tier]) : [policy.tiers]
  return parts.map((part) => {
    const name = parts.length === 1 ? policy.name : `${policy.name}-${formatWindow(part[0]?.windowMs ?? 0)}`
    const limits = part.map(({ limit, windowMs }) => `${limit}/${formatWindow(windowMs)}`).join(', ')
    const tiers = readLimits({ algorithm, limits }, (_, expected) => {
      throw new CommandError(`--algorithm ${algorithm}: expected ${expected}, got ${limits}`)
    }).map((tier) => ({ ...tier, name: formatLimitName(name, algorithm, tier) }))
    return { ...policy, name, algorithm, tiers, burst: hasBurst ? tiers[0]?.limit : undefined }
  })
}

/** @throws {CommandError} */
export function parseLimitsOption(text: string): string {
  if (parseLimits(text)) return text
  throw unexpected('--limits', 'tiers such as "10/1s, 120/1m"', text)
}

/** @throws {CommandError} */
export function parseAlgorithm(text: string): AlgorithmName {
  const algorithm = SIMULATED_ALGORITHMS.find((name) => name === text)
  if (algorithm) return algorithm
  throw unexpected('--algorithm', `one of ${SIMULATED_ALGORITHMS.join(', ')}`, text)
}

/** @throws {CommandError} */
export function parseLeases(text: string): LeaseSize | 'off' {
  if (text === 'off' || text === 'auto') return text
  const size = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (size >= 2 && size <= 10_000) return size
  throw unexpected('--leases', LEASES_EXPECTED, text)
}

function unexpected(option: string, expected: string, text: string): CommandError {
  return new CommandError(`${option}: expected ${expected}, got ${JSON.stringify(text.slice(0, 100))}`)
}
