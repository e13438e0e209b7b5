/** The configuration of the reference server, with our additions: domains, and in each a tree of descriptors. */
import type { Node } from 'yaml'
import { ALGORITHMS, holdsSlots } from '../core/algorithms/algorithm-table.ts'
import { ALGORITHM_NAMES, type AlgorithmName } from '../core/model/limits.ts'
import type { OnStoreError } from '../core/model/policy.ts'
import { OptionError } from '../core/options/option-error.ts'
import { MAX_LOG_ENTRIES } from '../core/options/read-limits.ts'
import type { CountingPolicy } from '../http/response/rate-limit-headers.ts'
import { readPolicy } from '../library/policies.ts'
import { type Descriptor, type RateLimitUnit, UNITS } from './messages.ts'
import { YamlReader } from './yaml-reader.ts'

/** The limit of a descriptor, and how it is applied. */
export interface DescriptorLimit {
  /** Name that `replaces` of others may give; empty without one. */
  readonly name: string
  readonly replaces: readonly string[]
  /** Limits; `unlimited` admits everything, `none` nothing. */
  readonly limits: CountingPolicy | 'unlimited' | 'none'
  /** Set if nothing is admitted. */
  readonly unit: RateLimitUnit | 'UNKNOWN'
  readonly isShadow: boolean
  /** It refuses a request only if all quotas of the request are full. */
  readonly isQuota: boolean
  /** Its metrics name all values. */
  readonly isDetailed: boolean
}

export interface RateLimitMatch {
  readonly rateLimit: DescriptorLimit
  /** Keys and values that are counted together. */
  readonly identity: readonly string[]
  /** Names its metrics, as the reference server does. */
  readonly metricKey: string
}

interface TreeNode {
  readonly children: Map<string, TreeNode>
  /** Its children with a `*`, in the order of the file. */
  readonly wildcards: { readonly parts: readonly string[]; readonly name: string; readonly value: string }[]
  readonly rateLimit: DescriptorLimit | undefined
  /** All values that its wildcard matches are counted together. */
  readonly sharesThreshold: boolean
  /** Metrics name the value of the request. */
  readonly namesValue: boolean
}

export type Domains = ReadonlyMap<string, TreeNode>

export interface ConfigFile {
  readonly name: string
  readonly text: string
}

const ROOT_KEYS = ['domain', 'descriptors'] as const
const DESCRIPTOR_KEYS = [
  ...(['key', 'value', 'rate_limit', 'descriptors', 'shadow_mode', 'detailed_metric', 'value_to_metric'] as const),
  ...(['share_threshold', 'quota_mode', 'metadata'] as const),
]
const RATE_LIMIT_KEYS = [
  ...(['unit', 'requests_per_unit', 'unlimited', 'name', 'replaces', 'limits', 'algorithm'] as const),
]

/** @throws {ConfigError} naming file, line and column of the first mistake */
export function readDomains(files: readonly ConfigFile[], onStoreError: OnStoreError): Domains {
  const domains = new Map<string, TreeNode>()
  for (const { name, text } of files) {
    const yaml = new YamlReader(name, text)
    const fields = yaml.readMap(yaml.root, 'a map', ROOT_KEYS)
    const domain = yaml.readText(fields.domain)
    if (domain === '') yaml.fail(fields.domain ?? yaml.root, 'expected a domain that is not empty')
    if (domains.has(domain)) yaml.fail(fields.domain, `expected each domain in one file, got "${domain}" again`)
    const tree = createTreeNode()
    readDescriptors(yaml, fields.descriptors, tree, [domain], onStoreError)
    domains.set(domain, tree)
  }
  return domains
}

function createTreeNode(rateLimit?: DescriptorLimit, sharesThreshold = false, namesValue = false): TreeNode {
  return { children: new Map(), wildcards: [], rateLimit, sharesThreshold, namesValue }
}

function readDescriptors(
  yaml: YamlReader,
  list: Node | undefined,
  parent: TreeNode,
  path: readonly string[],
  onStoreError: OnStoreError,
): void {
  for (const node of yaml.readList(list, 'descriptors')) {
    const fields = yaml.readMap(node, 'a descriptor', DESCRIPTOR_KEYS)
    const key = yaml.readText(fields.key)
    const value = yaml.readText(fields.value)
    if (key === '') yaml.fail(fields.key ?? node, 'expected a descriptor with a key that is not empty')
    const name = value === '' ? key : `${key}_${value}`
    const names = [...path, name]
    if (parent.children.has(name)) {
      yaml.fail(fields.key, `expected each key and value once, got "${names.join('.')}" again`)
    }
    const sharesThreshold = yaml.readBoolean(fields.share_threshold)
    if (sharesThreshold && !name.includes('*')) yaml.fail(fields.share_threshold, 'expected a value with "*" beside it')
    const context = {
      // Metrics call it so, too.
      path: names.slice(1).join('.'),
      isShadow: yaml.readBoolean(fields.shadow_mode),
      isQuota: yaml.readBoolean(fields.quota_mode),
      isDetailed: yaml.readBoolean(fields.detailed_metric),
      onStoreError,
    }
    const rateLimit = fields.rate_limit && readRateLimit(yaml, fields.rate_limit, context)
    const child = createTreeNode(rateLimit, sharesThreshold, yaml.readBoolean(fields.value_to_metric))
    if (name.includes('*')) parent.wildcards.push({ parts: name.split('*'), name, value })
    readDescriptors(yaml, fields.descriptors, child, names, onStoreError)
    parent.children.set(name, child)
  }
}

interface RateLimitContext extends Pick<DescriptorLimit, 'isShadow' | 'isQuota' | 'isDetailed'> {
  /** Keys and values down to it. */
  readonly path: string
  readonly onStoreError: OnStoreError
}

function readRateLimit(yaml: YamlReader, node: Node, context: RateLimitContext): DescriptorLimit {
  const fields = yaml.readMap(node, 'a rate limit', RATE_LIMIT_KEYS)
  const name = yaml.readText(fields.name)
  const replaces = yaml.readList(fields.replaces, 'names').map((each) => {
    const replaced = yaml.readText(yaml.readMap(each, 'a map', ['name']).name)
    if (replaced === '') yaml.fail(each, 'expected the name of another rate limit')
    if (replaced === name) yaml.fail(each, `expected the name of another rate limit, got its own ("${name}")`)
    return replaced
  })
  const { isShadow, isQuota, isDetailed } = context
  const common = { name, replaces, isShadow, isQuota, isDetailed }
  const unit = yaml.readText(fields.unit).toUpperCase()
  const limitNode = fields.limits ?? fields.algorithm ?? (unit === 'UNKNOWN' ? undefined : fields.unit)
  if (yaml.readBoolean(fields.unlimited)) {
    if (limitNode) yaml.fail(limitNode, 'expected no limits beside "unlimited: true"')
    return { ...common, limits: 'unlimited', unit: 'UNKNOWN' }
  }
  if (fields.limits && (fields.unit ?? fields.requests_per_unit)) {
    yaml.fail(fields.limits, 'expected either limits, or unit and requests_per_unit')
  }
  const algorithm = fields.algorithm && readAlgorithm(yaml, fields.algorithm)
  if (fields.limits) {
    try {
      const limits = createPolicy(yaml.readText(fields.limits), algorithm ?? 'sliding-window', context, name)
      return { ...common, limits, unit: 'UNKNOWN' }
    } catch (error) {
      throw explain(yaml, fields.limits, error)
    }
  }
  if (!isUnit(unit))
    return yaml.fail(fields.unit ?? node, `expected a unit (${UNIT_NAMES}), got "${unit.toLowerCase()}"`)
  const count = yaml.readCount(fields.requests_per_unit)
  try {
    return { ...common, limits: createUnitPolicy(count, unit, context, name, algorithm), unit }
  } catch (error) {
    throw explain(yaml, fields.requests_per_unit ?? node, error)
  }
}

const UNIT_NAMES = Object.keys(UNITS).join(', ').toLowerCase()

function isUnit(text: string): text is RateLimitUnit {
  return Object.hasOwn(UNITS, text)
}

function readAlgorithm(yaml: YamlReader, node: Node): AlgorithmName {
  const text = yaml.readText(node)
  // Nothing tells when a request has ended, so its slot could not be given back.
  const names = ALGORITHM_NAMES.filter((algorithm) => !holdsSlots({ algorithm }))
  const name = names.find((each) => each === text)
  return name ?? yaml.fail(node, `expected one of ${names.join(', ')}, got "${text}"`)
}

/** Turns what the library says of an option into an error that names the position in the file. */
function explain(yaml: YamlReader, node: Node, error: unknown): unknown {
  if (!(error instanceof OptionError)) return error
  return yaml.fail(node, error.message)
}

/**
 * The policy of a limit by unit. Exact logs hold an entry for each request: limits above what is reasonable are counted
 * in windows of the clock, as the reference server counts all.
 */
function createUnitPolicy(
  count: number,
  unit: RateLimitUnit,
  context: RateLimitContext,
  name: string,
  algorithm: AlgorithmName = count > MAX_LOG_ENTRIES ? 'fixed-window' : 'sliding-window',
): CountingPolicy | 'none' {
  return count === 0 ? 'none' : createPolicy(`${count}/${UNITS[unit].limits}`, algorithm, context, name)
}

function createPolicy(
  limits: string,
  algorithm: AlgorithmName,
  context: RateLimitContext,
  name: string,
): CountingPolicy {
  const shown = (name || context.path).replaceAll(/[^\w-]/g, '-').slice(-64)
  const mode = context.isShadow ? 'shadow' : 'enforce'
  return { ...readPolicy({ name: shown, limits, algorithm, mode }, '', context.onStoreError), counts: 'requests' }
}

/**
 * Finds the rate limit of a descriptor: at each level by key and value, then by the first wildcard that matches, then by
 * key alone. It counts only if the descriptor ends with it.
 * @returns undefined if there is none: nothing is then limited
 * @throws {OptionError} for an override that cannot be
 */
export function findRateLimit(
  domains: Domains,
  domain: string,
  { entries, limit }: Descriptor,
  onStoreError: OnStoreError,
): RateLimitMatch | undefined {
  const root = domains.get(domain)
  if (!root) return undefined
  const identity = [domain, ...entries.flatMap(({ key, value }) => [key, value])]
  const detailed = entries.map(({ key, value }) => (value === '' ? key : `${key}_${value}`))
  if (limit) {
    const rateLimit = createOverride(limit, entries.map(({ key }) => key).join('.'), onStoreError)
    return { rateLimit, identity, metricKey: detailed.join('.') }
  }
  const names: string[] = []
  let node: TreeNode | undefined = root
  for (const [index, { key, value }] of entries.entries()) {
    const full = `${key}_${value}`
    const exact: TreeNode | undefined = node.children.get(full)
    const wildcard: TreeNode['wildcards'][number] | undefined = exact
      ? undefined
      : node.wildcards.find(({ parts }) => matchesParts(parts, full))
    const child: TreeNode | undefined = exact ?? node.children.get(wildcard?.name ?? key)
    if (!child) return undefined
    const isShared = wildcard !== undefined && child.sharesThreshold
    if (isShared) {
      identity[2 + 2 * index] = wildcard.value
      detailed[index] = wildcard.name
    }
    names.push(isShared || (!exact && !child.namesValue) ? (wildcard?.name ?? key) : full)
    node = child
  }
  const metricKey = (node.rateLimit?.isDetailed ? detailed : names).join('.')
  return node.rateLimit && { rateLimit: node.rateLimit, identity, metricKey }
}

function createOverride(
  { requestsPerUnit, unit }: NonNullable<Descriptor['limit']>,
  path: string,
  onStoreError: OnStoreError,
): DescriptorLimit {
  if (typeof unit === 'number' || unit === 'UNKNOWN') throw new OptionError('limit.unit', `one of ${UNIT_NAMES}`, unit)
  const common = { isShadow: false, isQuota: false, isDetailed: true }
  const limits = createUnitPolicy(requestsPerUnit, unit, { ...common, path, onStoreError }, '')
  return { ...common, name: '', replaces: [], unit, limits }
}

/** Tests that a text consists of these parts, in order, with anything between them. */
function matchesParts(parts: readonly string[], text: string): boolean {
  const [first = '', ...rest] = parts
  const last = rest.pop() ?? ''
  if (!text.startsWith(first) || text.length < first.length + last.length || !text.endsWith(last)) return false
  let at = first.length
  for (const part of rest) {
    const found = text.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return at <= text.length - last.length
}

/** Tests that units can be given back: exact logs do not know whose entries they hold. */
export function canGiveBack({ algorithm }: CountingPolicy): boolean {
  return ALGORITHMS[algorithm].implementation.settle !== undefined
}
