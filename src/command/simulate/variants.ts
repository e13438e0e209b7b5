import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { readTiers, tierName } from '../../algorithms/read-tiers.ts'
import type { Config } from '../../config/load-config.ts'
import { LEASES_EXPECTED } from '../../config/values.ts'
import type { LeaseSize } from '../../engine/leases.ts'
import type { Tier } from '../../model/limits.ts'
import { ALGORITHM_NAMES, type AlgorithmName, formatWindow, parseLimits } from '../../model/limits.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import { configOf } from '../caller/ask.ts'
import { CommandError } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'

/** What is tried in place of the configuration; what is left out is as configured. */
export interface Variant {
  readonly limits?: string
  readonly algorithm?: AlgorithmName
  /** Left out, no request is decided without a call, and none are taken in advance. */
  readonly leases?: LeaseSize | 'off'
}

/** More would be slow, and nobody could compare them. */
const MOST_VARIANTS = 24
/** The policy that RATE_LIMITS makes. */
const DEFAULT_POLICY = 'default'

/** Each of the limits with each of the algorithms and leases. @throws {CommandError} if these are too many */
export function variantsOf({
  limits = [],
  algorithm = [],
  leases = [],
}: {
  readonly limits?: readonly string[] | undefined
  readonly algorithm?: readonly AlgorithmName[] | undefined
  readonly leases?: readonly (LeaseSize | 'off')[] | undefined
}): readonly Variant[] {
  let variants: readonly Variant[] = [{}]
  const cross = (parts: readonly Variant[]) => {
    if (parts.length > 0) variants = variants.flatMap((variant) => parts.map((part) => ({ ...variant, ...part })))
  }
  cross(limits.map((each) => ({ limits: each })))
  cross(algorithm.map((each) => ({ algorithm: each })))
  cross(leases.map((each) => ({ leases: each })))
  if (variants.length <= MOST_VARIANTS) return variants
  throw new CommandError(`expected at most ${MOST_VARIANTS} combinations side by side, got ${variants.length}`)
}

/** @throws {OptionError|CommandError} */
export function configOfVariant(settings: Settings, { limits, algorithm }: Variant): Config {
  const variables = limits === undefined ? settings.variables : { ...settings.variables, RATE_LIMITS: limits }
  const config = configOf({ ...settings, variables })
  if (algorithm === undefined) return config
  const policies = config.policies.flatMap((policy) =>
    policy.name === DEFAULT_POLICY ? decidedBy(algorithm, policy) : [policy],
  )
  if (config.policies.some(({ name }) => name === DEFAULT_POLICY)) return { ...config, policies }
  throw new CommandError('--algorithm: there is no policy of RATE_LIMITS, which it is for', {
    hint: 'Add --limits, such as --limits "10/1s".',
  })
}

/** The same limits by another algorithm. A bucket has one limit: of several, each gets a bucket of its own. */
function decidedBy(algorithm: AlgorithmName, policy: RequestPolicy): readonly RequestPolicy[] {
  const { hasBurst } = ALGORITHMS[algorithm]
  const parts = hasBurst ? policy.tiers.map((tier) => [tier]) : [policy.tiers]
  return parts.map((part) => {
    const name = parts.length === 1 ? policy.name : `${policy.name}-${formatWindow(part[0]?.windowMs ?? 0)}`
    const limits = part.map(textOfTier).join(', ')
    const tiers = readTiers({ algorithm, limits }, (_, expected) => {
      throw new CommandError(`--algorithm ${algorithm}: expected ${expected}, got ${limits}`)
    }).map((tier) => ({ ...tier, name: tierName(name, algorithm, tier) }))
    return { ...policy, name, algorithm, tiers, burst: hasBurst ? tiers[0]?.limit : undefined }
  })
}

function textOfTier({ limit, windowMs }: Tier): string {
  return `${limit}/${formatWindow(windowMs)}`
}

/** @throws {CommandError} */
export function collectLimits(text: string, before: readonly string[] = []): readonly string[] {
  if (parseLimits(text)) return [...before, text]
  throw new CommandError(`--limits: expected tiers such as "10/1s, 120/1m", got ${JSON.stringify(text.slice(0, 100))}`)
}

/** Those that count requests over time. */
export const SIMULATED_ALGORITHMS = ALGORITHM_NAMES.filter((name) => !ALGORITHMS[name].holdsSlots)

/** @throws {CommandError} */
export function collectAlgorithms(text: string, before: readonly AlgorithmName[] = []): readonly AlgorithmName[] {
  const algorithm = SIMULATED_ALGORITHMS.find((name) => name === text)
  if (algorithm) return [...before, algorithm]
  throw new CommandError(
    `--algorithm: expected one of ${SIMULATED_ALGORITHMS.join(', ')}, got ${JSON.stringify(text.slice(0, 100))}`,
  )
}

/** @throws {CommandError} */
export function collectLeases(
  text: string,
  before: readonly (LeaseSize | 'off')[] = [],
): readonly (LeaseSize | 'off')[] {
  if (text === 'off' || text === 'auto') return [...before, text]
  const size = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (size >= 2 && size <= 10_000) return [...before, size]
  throw new CommandError(`--leases: expected ${LEASES_EXPECTED}, got ${JSON.stringify(text.slice(0, 100))}`)
}
