import fc from 'fast-check'
import type { RequestPolicy } from '../../src/core/model/policy.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { readRules } from '../../src/gateway/rules/document.ts'
import { RuleIndex } from '../../src/gateway/rules/rule-index.ts'
import { createRuleTarget } from '../../src/gateway/rules/target.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { RequestChargeBuilder } from '../../src/http/request/charge-builder.ts'
import type { ClaimReader, JwtSettings } from '../../src/http/request/identity/claims.ts'
import { loadTokenVerifier } from '../../src/http/request/identity/jwt/verify-tokens.ts'
import type { ReceivedRequest } from '../../src/http/request/received-request.ts'
import { callContext } from './call-context.ts'
import { HOLDERS, type Kind, type Spelt } from './lenient-readings.ts'
import { signToken } from './tokens.ts'

const ADDRESS = '203.0.113.7'
export const JWT_SECRET = 'planted-secret of thirty-two characters'

/** Identities that a block can name by their value; it can name any by its digest. */
const BLOCKED_BY_VALUE: ReadonlySet<Kind> = new Set(['token', 'claim', 'cookie', 'header', 'query'])

/** What becomes of requests in which one reader finds the caller. */
export interface Row {
  readonly kind: Kind
  readonly reader: string
  /** Spellings in which it finds the caller; the rest is none of its business. */
  found: number
  'the same caller': number
  'no identity': number
  'another caller': number
  /** While the caller is blocked. */
  'blocked: refused': number
  'blocked: let in': number
}

interface Dodge {
  readonly kind: Kind
  readonly reader: string
  readonly spelling: string
  readonly outcome: string
}

export interface Drawing {
  readonly seed: number
  readonly spellings: number
}

/** Of a session of Flask that is compressed: payload, time and signature. */
const FLASK_SESSION = '.eJyrVkosLcmIz8nPS1WyUkrMyy_JKEpVqgUAZIEIdg.aSJmZQ.cGxhbnRlZC1zZWNyZXQtc2lnbmE'

/** The callers that are to be found, as they are plainly sent. */
async function listValues(kind: Kind): Promise<readonly string[]> {
  const opaque = 'planted-secret.k1~x'
  const token = await signToken({ sub: 'alice' }, { secret: JWT_SECRET })
  switch (kind) {
    case 'token':
      return [opaque, btoa('alice:planted-secret'), token]
    case 'claim':
      return [token]
    case 'cookie':
      return [opaque, FLASK_SESSION, token]
    default:
      return [opaque]
  }
}

/** Draws spellings of one kind of identity. @returns for each caller that is to be found, those of its value */
export async function drawSpellings(kind: Kind, { seed, spellings }: Drawing): Promise<ReadonlyMap<string, string[]>> {
  const values = await listValues(kind)
  const numRuns = Math.ceil(spellings / values.length)
  return new Map(values.map((value) => [value, fc.sample(HOLDERS[kind].spell(value), { seed, numRuns })]))
}

/** Tries generated spellings of one kind of identity on its readers, and asks the gateway's own code who each of them is. */
export async function judgeReadings(
  kind: Kind,
  drawing: Drawing,
): Promise<{ readonly rows: readonly Row[]; readonly dodges: readonly Dodge[] }> {
  const { readers, toRequest, findText } = HOLDERS[kind]
  const rows = readers.map(
    ([reader]): Row => ({
      ...{ kind, reader, found: 0, 'the same caller': 0, 'no identity': 0, 'another caller': 0 },
      ...{ 'blocked: refused': 0, 'blocked: let in': 0 },
    }),
  )
  const dodges: Dodge[] = []
  for (const [value, spellings] of await drawSpellings(kind, drawing)) {
    const judge = await createJudge(kind, value)
    for (const spelling of spellings) {
      const received = receive(toRequest(spelling))
      const { headers, url } = received
      const text = findText({ headers, query: new URL(url).search.slice(1), body: spelling })
      const finders = rows.filter((_, index) => readers[index]?.[1](text)?.trim() === value)
      if (finders.length === 0) continue
      const { outcome, isBlocked } = await judge(received)
      const whileBlocked = isBlocked ? 'blocked: refused' : 'blocked: let in'
      for (const row of finders) {
        const { reader } = row
        row.found++
        row[outcome]++
        row[whileBlocked]++
        if (outcome === 'another caller') dodges.push({ kind, reader, spelling, outcome })
        if (!isBlocked) dodges.push({ kind, reader, spelling, outcome: whileBlocked })
      }
    }
  }
  return { rows, dodges }
}

interface Judgement {
  readonly outcome: 'the same caller' | 'no identity' | 'another caller'
  readonly isBlocked: boolean
}

/** The pattern that matched, and the path. */
interface Place {
  readonly route: string | undefined
  readonly path: string
}

/** Judges requests by a policy and blocks of a caller, who is first sent plainly. */
export async function createJudge(
  kind: Kind,
  value: string,
): Promise<(request: ReceivedRequest, at?: Place) => Promise<Judgement>> {
  const { by, spellPlainly, toRequest } = HOLDERS[kind]
  const config = loadConfig({
    UPSTREAM_URL: 'https://api.example.com',
    ...(kind === 'claim' && { JWT_SECRET }),
    // Who has no value at all is not counted: no spelling of a value may look like that.
    POLICIES: [{ name: 'p', limits: '5/1h', by, anonymous: 'skip' }],
  })
  const readClaim = kind === 'claim' ? await verifier() : undefined
  const maker = new RequestChargeBuilder({ ...config, readClaim })
  const [policy] = config.policies as readonly [RequestPolicy]
  const options = { ...config, readClaim }
  const ask = (request: ReceivedRequest, { route, path }: Place = { route: undefined, path: '/' }) =>
    maker.build({ policy, route, isCertain: true }, request, path, 'default', callContext())
  const plain = receive(toRequest(spellPlainly(value)))
  const known = await ask(plain)
  if (known === 'skip' || 'outcome' in known) throw new Error(`${by}: the plain spelling says nobody`)
  const caller = known.digest
  const target = BLOCKED_BY_VALUE.has(kind)
    ? await createRuleTarget(by, plain, {
        ...options,
        readClaim: readClaim && ((path) => readClaim(path, `Bearer ${value}`, callContext())),
      })
    : undefined
  const blocks = (entry: object) => new RuleIndex(readRules({ blocks: [entry] }), options)
  const indexes = [...(target ? [blocks(target)] : []), blocks({ digest: caller })]
  const nobody = createDigest(config.identitySecret)(['ip', ADDRESS])

  return async function judge(request, at) {
    const requested = await ask(request, at)
    const charge = requested === 'skip' || 'outcome' in requested ? undefined : requested
    const digest = charge?.digest
    const outcome = digest === caller ? 'the same caller' : digest === nobody ? 'no identity' : 'another caller'
    const isBlockedBy = async (rules: RuleIndex) => {
      const orders = await rules.match(request, 0, callContext())
      if (!orders || 'outcome' in orders) return orders !== undefined
      return charge !== undefined && 'outcome' in (await orders.apply([charge]))
    }
    // Whichever way it is blocked.
    const isBlocked = (await Promise.all(indexes.map(isBlockedBy))).every(Boolean)
    return { outcome, isBlocked }
  }
}

function verifier(): Promise<ClaimReader> {
  const settings: JwtSettings = { keys: { kind: 'secret', secret: JWT_SECRET }, issuer: undefined, audience: undefined }
  return loadTokenVerifier(settings, { now: Date.now, log() {}, fetch: () => Promise.reject(new Error('no')) })
}

/** As the runtime hands it over. */
export function receive({ query, headers, body }: Spelt): ReceivedRequest {
  const url = new URL(`https://gateway.example/?${query.replaceAll('#', '%23')}`).href
  const method = body === undefined ? 'GET' : 'POST'
  const request = new Request(url, { method, ...(body !== undefined && { body }) })
  return {
    ...{ method, url, body: request.body, clone: () => request.clone() },
    headers: new Headers({ 'CF-Connecting-IP': ADDRESS, ...headers }),
  }
}
