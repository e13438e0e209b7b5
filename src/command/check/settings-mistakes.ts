/** Finds mistakes in a configuration file that Wrangler accepts. */
import { ALGORITHMS } from '../../core/algorithms/algorithm-table.ts'
import { findTerms } from '../../core/engine/leases/lease-size.ts'
import { formatWindow } from '../../core/model/limits.ts'
import type { Config } from '../../http/config/load-config.ts'
import { findLongestMs } from '../../http/config/shards.ts'
import { findMeantVariable, SECRETS, VARIABLES } from '../../http/config/variables.ts'
import { isHeldOpen } from '../../http/request/charge-builder.ts'
import { locate } from '../settings/locate.ts'
import type { Settings } from '../settings/settings.ts'
import type { Path } from '../settings/wrangler-file.ts'
import type { Finding } from './finding.ts'

export function* findSettingsMistakes(config: Config, settings: Settings): Iterable<Finding> {
  yield* findFileMistakes(settings)
  yield* findUpstreamMistakes(config, settings)
  yield* findVariableMistakes(config, settings)
}

function* findFileMistakes(settings: Settings): Iterable<Finding> {
  const { file, root, sources } = settings
  if (!file) return
  const vars = [...root, 'vars']
  for (const path of findMisplaced(file.getTable(), root)) {
    const name = path.at(-1)
    const message = `${name} stands outside of [${vars.join('.')}]: the Worker does not get it`
    const hint =
      name === 'POLICIES' ? `In TOML, its tables begin with [[${vars.join('.')}.POLICIES]].` : 'Move it there.'
    yield { code: 'misplaced-variable', message, hint, at: file.locate(path, 'name') }
  }
  for (const name of SECRETS) {
    if (sources.get(name) !== 'wrangler' || name === 'UPSTASH_REDIS_REST_URL') continue
    const message = `${name} is a secret, and stands in a file that everybody with the repository can read`
    const hint = `Take it out, and set another one by \`wrangler secret put ${name}\`.`
    yield { code: 'secret-in-file', message, hint, at: locate(settings, name) }
  }
  if (root.length === 0) return
  const missing = VARIABLES.filter((name) => name in file.getTable('vars') && !(name in file.getTable(...vars)))
  if (missing.length === 0) return
  const names = `${missing.join(', ')} of [vars] ${missing.length === 1 ? 'does' : 'do'}`
  const message = `${names} not hold in this environment, which inherits no variables`
  const hint = 'Repeat them there if they are to hold.'
  yield { code: 'not-inherited', message, hint, at: file.locate(vars, 'name') }
}

/** Finds variables outside of tables of variables. Other environments are checked separately. */
function findMisplaced(table: object, root: Path, path: Path = []): readonly Path[] {
  return Object.entries(table).flatMap(([name, value]): readonly Path[] => {
    const at = [...path, Array.isArray(table) ? Number(name) : name]
    const isVars = name === 'vars' && (path.length === 0 || (path.length === 2 && path[0] === 'env'))
    const isOther = path.length === 1 && path[0] === 'env' && name !== root[1]
    // The names in `define` are arbitrary.
    if (isVars || isOther || name === 'define') return []
    if ((VARIABLES as readonly string[]).includes(name)) return [at]
    return typeof value === 'object' && value !== null ? findMisplaced(value, root, at) : []
  })
}

function* findUpstreamMistakes({ upstreamUrl, upstreamSecret }: Config, settings: Settings): Iterable<Finding> {
  const { file, root, sources } = settings
  if (upstreamUrl === undefined || !sources.has('UPSTREAM_URL')) return
  const { protocol, hostname } = new URL(upstreamUrl)
  const isLocal = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
  const read = (key: string) => file?.get(...root, key) ?? file?.get(key)
  const route = readRoutes(read('routes'), read('route')).find((pattern) => isForHost(pattern, hostname))
  const at = locate(settings, 'UPSTREAM_URL')
  if (/(?:^|\.)example\.(?:com|net|org)$/.test(hostname)) {
    const message = `UPSTREAM_URL is still that of an example, ${hostname}`
    yield {
      code: 'example-upstream',
      message,
      hint: 'Set it to the origin of your API: npm run deploy refuses this one.',
      at,
    }
  } else if (upstreamSecret !== undefined && protocol === 'http:' && !isLocal) {
    const message = 'UPSTREAM_SECRET goes to the API over http, where others can read it'
    yield { code: 'secret-in-clear', message, hint: 'Use https, or a private network in front.', at }
  } else if (route !== undefined) {
    const message = `UPSTREAM_URL is of the host that the route "${route}" sends to the gateway itself`
    yield { code: 'upstream-is-route', message, hint: 'Give the API a host that no route is for.', at }
  }
}

function readRoutes(routes: unknown, route: unknown): readonly string[] {
  return [...(Array.isArray(routes) ? routes : []), route]
    .map((each) => (typeof each === 'object' && each !== null ? (each as { pattern?: unknown }).pattern : each))
    .filter((pattern) => typeof pattern === 'string')
}

function isForHost(pattern: string, hostname: string): boolean {
  const [host = ''] = pattern.replace(/^\*?https?:\/\//, '').split('/')
  return host.startsWith('*') ? hostname.endsWith(host.slice(1)) : host === hostname
}

function* findVariableMistakes(config: Config, settings: Settings): Iterable<Finding> {
  const { leases, localShare, statistics, storeTimeoutMs, upstreamTimeoutMs } = config
  const at = (name: string) => locate(settings, name)
  if (storeTimeoutMs > upstreamTimeoutMs) {
    const timeouts = `STORE_TIMEOUT_MS (${storeTimeoutMs}) is above UPSTREAM_TIMEOUT_MS (${upstreamTimeoutMs})`
    const message = `${timeouts}: a request may wait for Redis longer than for the API`
    yield { code: 'store-timeout', message, hint: 'Lower it; the default is 500.', at: at('STORE_TIMEOUT_MS') }
  }
  const limiting = config.policies.filter(({ limits }) => limits.length > 0)
  if (leases !== undefined && !limiting.some(({ algorithm, penalty }) => ALGORITHMS[algorithm].lease && !penalty)) {
    const message = 'LEASES changes nothing: no policy has an algorithm whose permits can be taken in advance'
    const hint = 'All but concurrency can, without penalty.'
    yield { code: 'leases-without-effect', message, hint, at: at('LEASES') }
  }
  const leasable = limiting.filter(({ algorithm, penalty }) => ALGORITHMS[algorithm].lease && !penalty)
  const maxLeaseMs = Math.max(...leasable.map((policy) => findTerms(policy).maxLeaseMs))
  if (leases !== undefined && limiting.length > 1 && leasable.length > 0 && maxLeaseMs <= 2 * storeTimeoutMs) {
    const message = `LEASES changes nothing where several policies apply: a permit must last for twice STORE_TIMEOUT_MS (${storeTimeoutMs}), and none here lasts longer than ${maxLeaseMs} ms`
    yield { code: 'leases-without-effect', message, hint: 'Lower STORE_TIMEOUT_MS.', at: at('STORE_TIMEOUT_MS') }
  }
  if (localShare !== 1 && !limiting.some(({ onStoreError }) => onStoreError === 'local')) {
    const message = 'LOCAL_SHARE changes nothing: no policy has on_store_error = "local"'
    const hint = 'Remove it, or set ON_STORE_ERROR = "local".'
    yield { code: 'local-share-without-effect', message, hint, at: at('LOCAL_SHARE') }
  }
  if (statistics.label !== undefined && !statistics.isOn && statistics.logShare === 0) {
    const message = 'CALLER_LABEL changes nothing: STATISTICS is off, and LOG_REFUSALS 0'
    const hint = 'Set STATISTICS = "on", or LOG_REFUSALS above 0.'
    yield { code: 'label-without-effect', message, hint, at: at('CALLER_LABEL') }
  }
  const moving = config.shards?.flatMap(({ name, state }) => (state ? [`${name} is ${state}`] : [])) ?? []
  if (moving.length > 0) {
    const message = `${moving.join(', ')}: what moves is counted in two databases`
    const waitFor = `all isolates have had this for ${formatWindow(findLongestMs(limiting))}, the longest time of a count`
    const held = limiting.filter(isHeldOpen).map(({ name }) => name)
    const end = held.length > 0 ? `, and WebSockets and streams by ${held.join(', ')} that began before have ended` : ''
    const hint = `Once ${waitFor}${end}, leave out what has left, and "state": /_sluice/health says when.`
    yield { code: 'moving-shards', message, hint, at: at('REDIS_SHARDS') }
    if (config.shards?.[0]?.state === 'leaving') {
      const message = `${config.shards[0].name} is leaving, and rules, blocks and the audit log are in it`
      const hint = 'They end with it: write them again to the one that is the first then.'
      yield { code: 'rules-leave', message, hint, at: at('REDIS_SHARDS') }
    }
  }
  if (settings.variables.MODE === 'shadow') {
    const hint = 'Set MODE = "enforce" once the limits are right.'
    yield { code: 'shadow', message: 'MODE is "shadow": nothing is ever refused', hint, at: at('MODE') }
  }
  for (const name of settings.sources.keys()) {
    // A name that is close to a known one is refused at start.
    const isKnown = (VARIABLES as readonly string[]).includes(name) || findMeantVariable(name) !== undefined
    if (isKnown || !/^[A-Z][A-Z\d_]*$/.test(name)) continue
    const meant = VARIABLES.find((variable) => variable.startsWith(name.slice(0, 4)))
    const hint = meant && `Did you mean ${meant}?`
    const message = `${name} is no variable of Sluice, which ignores it`
    yield { code: 'unknown-variable', message, hint, at: locate(settings, name, [], 'name') }
  }
}
